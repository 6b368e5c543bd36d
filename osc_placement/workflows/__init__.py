# SPDX-License-Identifier: Apache-2.0
"""Workflows: observe a cloud, plan a list of changes, apply the plan.

Each inner package reads first (``observe``), then decides (``plan``, pure). The package
``osc_placement.plan`` applies what was decided.
"""

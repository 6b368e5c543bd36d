"""Requests for consumers: allocations, usages, allocation candidates, the reshaper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from osc_placement import microversion
from osc_placement.client import api_errors, caller, query, responses, wire
from osc_placement.model import allocation

if TYPE_CHECKING:
    from osc_placement.model import candidate


class AllocationCalls(caller.Caller):
    """Every method sends one request."""

    def show_allocations(self, consumer_uuid: str) -> allocation.Consumer:
        """GET /allocations/{uuid}; an unknown consumer has no allocations and no generation.

        The response has the owner from 1.12, the generation from 1.28, the type from 1.38.
        """
        reply = self._get("allocations", consumer_uuid)
        return caller.parse(reply, lambda body: wire.read_consumer(consumer_uuid, body))

    def show_consumer_allocations(self, consumer_uuid: str) -> responses.ConsumerAllocations:
        """GET /allocations/{uuid} with the generations of the providers."""
        reply = self._get("allocations", consumer_uuid)
        return caller.parse(reply, lambda body: wire.read_consumer_allocations(consumer_uuid, body))

    def replace_allocations(
        self,
        consumer: allocation.Consumer,
        mappings: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """PUT /allocations/{uuid}: replace all; without any the consumer is deleted (1.28)."""
        body = wire.consumer_body(consumer, self.microversion, mappings)
        self._send("PUT", "allocations", consumer.uuid, body=body)

    def write_allocations(self, consumers: Iterable[allocation.Consumer]) -> None:
        """POST /allocations: several consumers in one transaction (1.13)."""
        self.require_feature("allocations of many consumers", "POST /allocations")
        self._send("POST", "allocations", body=wire.consumers_body(consumers, self.microversion))

    def delete_allocations(self, consumer_uuid: str) -> None:
        """DELETE /allocations/{uuid}: all, without a generation."""
        self._send("DELETE", "allocations", consumer_uuid)

    def show_usages(
        self,
        project_id: str,
        user_id: str | None = None,
        consumer_type: str | None = None,
    ) -> list[responses.Usage]:
        """GET /usages of a project (1.9): one entry; from 1.38 one per consumer type.

        ``consumer_type`` (1.38) may also be ``all`` (one entry) or ``unknown``.
        """
        self.require_feature("usages by project", "GET /usages")
        fields = {"project_id": project_id, "user_id": user_id, "consumer_type": consumer_type}
        if consumer_type is not None:
            self.require_feature("consumer types", "consumer_type")
        pairs = [(name, value) for name, value in fields.items() if value is not None]
        version = self.microversion
        reply = self._get("usages", pairs=pairs)
        return caller.parse(reply, lambda body: wire.read_usages(body, version))

    def show_total_usage(self, project_id: str, user_id: str | None = None) -> responses.Usage:
        """GET /usages of a project (1.9), and of one user of it, over all consumer types.

        ``consumer_count`` is None below 1.38. From 1.38 on the request asks for the type
        ``all``: openstack-placement on PostgreSQL answers 500 if it must group by type.
        """
        counted = microversion.supports(self.microversion, "consumer types")
        usages = self.show_usages(project_id, user_id, "all" if counted else None)
        return responses.Usage(
            allocation.add_resources(*(usage.resources for usage in usages)),
            consumer_count=sum(usage.consumer_count or 0 for usage in usages) if counted else None,
        )

    def list_allocation_candidates(
        self, request: candidate.CandidateQuery | query.Pairs | str
    ) -> responses.Candidates:
        """GET /allocation_candidates (1.10).

        ``request`` may also be a query string from a log, or a list of parameters.
        """
        pairs = candidate_pairs(request)
        for feature, parameter in query.candidate_features(pairs).items():
            self.require_feature(feature, parameter)
        return caller.parse(self._get("allocation_candidates", pairs=pairs), wire.read_candidates)

    def reshape(
        self,
        inventories: Mapping[str, responses.ProviderInventories],
        consumers: Iterable[allocation.Consumer],
    ) -> None:
        """POST /reshaper: replace inventories and allocations in one transaction (1.30).

        ``inventories`` is ``{provider uuid: new inventories with the current generation}``;
        all allocations of each consumer are replaced.
        """
        self.require_feature("reshaper", "POST /reshaper")
        self._send(
            "POST", "reshaper", body=wire.reshape_body(inventories, consumers, self.microversion)
        )

    def check_reshape(self) -> None:
        """Raise Forbidden unless policy allows this user to reshape. Changes nothing.

        Requests: one POST /reshaper with an empty body; Placement checks policy before it
        reads the body, and refuses the body with 400.
        """
        self.require_feature("reshaper", "POST /reshaper")
        try:
            self._send("POST", "reshaper", body={})
        except api_errors.OutcomeUnknown as error:
            # An empty body changes nothing: the caller can safely retry.
            raise api_errors.ConnectionFailed(error.detail) from error
        except api_errors.ApiError as error:
            if error.status != 400:
                raise


def candidate_pairs(
    request: candidate.CandidateQuery | query.Pairs | str,
) -> query.Pairs:
    """The query parameters of a candidates query in any of its forms."""
    if isinstance(request, str):
        return query.parse(request)
    return request if isinstance(request, list) else query.candidate_pairs(request)

"""MEM_ENCRYPTION_CONTEXT of a compute node's root to one provider per model of memory encryption.

Pure. Nova's libvirt driver names these providers ``<node>_amd_sev`` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.workflows.reshape import snapshot
from osc_placement.workflows.reshape.recipe import children, yaml_writer

MEM_ENCRYPTION_CONTEXT = "MEM_ENCRYPTION_CONTEXT"

AMD_SEV = "amd-sev"
#: ``{the value of hw:mem_encryption_model: the trait of its provider}``
TRAITS: Mapping[str, str] = {
    AMD_SEV: "HW_CPU_X86_AMD_SEV",
    "amd-sev-es": "HW_CPU_X86_AMD_SEV_ES",
    "amd-sev-snp": "HW_CPU_X86_AMD_SEV_SNP",
    "intel-tdx": "HW_CPU_X86_INTEL_TDX",
}

_HEAD = """\
MEM_ENCRYPTION_CONTEXT of {node}, from its own provider to one provider per model of memory \
encryption: {models}.

A release of nova-compute that reports these providers makes the same move for amd-sev when it \
starts. This document is for moves before that, and for several models.

1. Stop nova-compute on {node}.
2. Check the plan, then apply it:

  openstack placement reshape FILE --dry-run
  openstack placement reshape FILE

3. Start nova-compute of the new release. It finds the providers by their names, and writes the \
number of encrypted servers that the host supports."""

_EVIDENCE = """\
Only the host knows which model a server uses. On {node}, this writes what --assign-from reads:

  for server in $(virsh list --all --uuid); do virsh dumpxml $server; done > evidence

A server with "# <server>: ?" below is undecided; --strategy guesses its model."""


def plan_sev(
    trees: snapshot.TreeSnapshot,
    root: str,
    models: Mapping[str, int],
    evidence: tuple[tuple[str, str], ...] = (),
) -> yaml_writer.Recipe:
    """The recipe for the tree with this root (a UUID).

    ``models`` are the amounts by model; without them all is AMD SEV, the model that nova had
    before it reported the models. Errors: InvalidInput with all contradictions to the cloud.
    """
    node = trees.nodes[root]
    held = node.inventories.get(MEM_ENCRYPTION_CONTEXT)
    models = models or {AMD_SEV: held.total if held is not None else 0}
    moving = children.Request(
        tuple(_child(model, total) for model, total in models.items()),
        evidence,
        "model",
        "--model",
        counted=MEM_ENCRYPTION_CONTEXT,
    )
    shown = ", ".join(f"{model} ({total})" for model, total in models.items())
    head = f"{_HEAD}\n\n{_EVIDENCE}" if len(models) > 1 else _HEAD
    head = head.format(node=yaml_writer.plain(node.provider.name), models=shown)
    return children.plan_children(trees, root, moving, head)


def _child(model: str, total: int) -> children.Child:
    return children.Child(
        model,
        {MEM_ENCRYPTION_CONTEXT: total},
        (TRAITS[model], children.OWNER),
        # A server uses one.
        fields={MEM_ENCRYPTION_CONTEXT: children.driver_fields(total, max_unit=1)},
        suffix=model.replace("-", "_"),
    )

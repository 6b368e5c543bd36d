# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.model import inventory
from osc_placement.nova import api as nova_api
from osc_placement.plan import result
from osc_placement.workflows.batch import aggregate_ratios
from osc_placement.workflows.repair.allocations import preconditions
from tests.support import embedded, plans

USAGES = "GET /allocation_candidates"
INVENTORIES = "GET /resource_providers/{}/inventories"


def nova(**aggregates: tuple[list[str], dict[str, str]]) -> nova_api.RecordedNova:
    """Nova with six hosts and these host aggregates: ``{name: (hosts, metadata)}``."""
    kit = testing.Cloud()
    for number in range(6):
        kit.node(f"h{number}.example", f"h{number}")
    for name, (hosts, metadata) in aggregates.items():
        kit.aggregate(name, [f"{host}.example" for host in hosts], **metadata)
    return nova_api.RecordedNova(kit.nova(), "")


def cloud(count: int = 6) -> embedded.Client:
    """Hosts with VCPU at ratio 16 and MEMORY_MB at ratio 1."""
    return embedded.Client(embedded.Host(f"h{number}.example") for number in range(count))


def run(client: embedded.Client, known: Any, **request: Any) -> result.RunReport:
    planned = aggregate_ratios.plan_aggregate_ratios(
        client, known, aggregate_ratios.AggregateRatioRequest(**request)
    )
    check = preconditions.NovaPreconditions(known)
    return plans.apply_in_memory(client, planned, check_precondition=check)


def ratios(client: embedded.Client, name: str = "VCPU") -> list[float]:
    return [
        client.stored(f"h{number}.example").inventories[name].allocation_ratio
        for number in range(6)
    ]


def test_a_host_in_several_aggregates_gets_the_smallest_ratio() -> None:
    client = cloud()
    recording = nova(
        az1=(["h0", "h1", "h2"], {"cpu_allocation_ratio": "8.0"}),
        ssd=(["h1"], {"cpu_allocation_ratio": "2", "ram_allocation_ratio": "1.5"}),
        big=(["h1", "h2"], {"cpu_allocation_ratio": "32", "other": "x"}),
    )
    report = run(client, recording)
    assert ratios(client) == [8.0, 2.0, 8.0, 16.0, 16.0, 16.0]
    assert ratios(client, "MEMORY_MB") == [1.0, 1.5, 1.0, 1.0, 1.0, 1.0]
    first, second, _ = report.results
    assert first.reason.startswith("VCPU from az1; VCPU capacity 512 -> 256")
    assert second.reason.startswith("VCPU from ssd; MEMORY_MB from ssd; ")
    assert run(client, recording).count(result.Status.UNCHANGED) == 3


def test_one_read_per_host_with_a_ratio_and_one_for_all_usages() -> None:
    client = cloud()
    run(client, nova(az1=(["h0", "h1", "h2"], {"cpu_allocation_ratio": "32.0"})))
    assert client.count() == {
        "GET /resource_providers": 1,
        INVENTORIES: 3,
        "PUT /resource_providers/{}/inventories": 3,
    }
    client.sent.clear()
    run(client, nova(az1=(["h0", "h1", "h2"], {"cpu_allocation_ratio": "4"})))
    assert client.count()[USAGES] == 1


@pytest.mark.parametrize(
    "text", ["1,5", "", "-1", "0", "nan", "sNaN", "inf", "1e400", "1e-400", "x"]
)
def test_an_invalid_ratio_changes_no_host_of_the_aggregate(text: str) -> None:
    client = cloud()
    recording = nova(
        az1=(["h0", "h1"], {"cpu_allocation_ratio": "4"}),
        ssd=(["h1"], {"cpu_allocation_ratio": text}),
    )
    report = run(client, recording)
    assert ratios(client)[:2] == [4.0, 16.0]
    assert report.exit_code() == 6
    assert {item.subject.name: (str(item.status), item.code) for item in report.results} == {
        "h0.example": ("applied", ""),
        "h1.example": ("skipped", "invalid-value"),
        "ssd": ("refused", "invalid-value"),
    }


def test_missing_classes_and_providers_are_named() -> None:
    client = cloud(count=2)
    recording = nova(
        az1=(["h0", "h5", "gone"], {"disk_allocation_ratio": "1.5", "cpu_allocation_ratio": "4"})
    )
    report = run(client, recording)
    results = {item.subject.name: item for item in report.results}
    assert {name: (str(item.status), item.code) for name, item in results.items()} == {
        "h0.example": ("applied", ""),
        "h5.example": ("refused", "no-provider"),
        "gone.example": ("refused", "unknown-host"),
    }
    assert "it has no DISK_GB" in results["h0.example"].reason


def test_a_ratio_below_the_usage_is_refused() -> None:
    full = embedded.Host(
        "h0.example", used={"VCPU": 32}, inventories={"VCPU": inventory.Inventory(total=32)}
    )
    client = embedded.Client([full])
    recording = nova(az1=(["h0"], {"cpu_allocation_ratio": "0.5"}))
    (item,) = run(client, recording).results
    assert (str(item.status), item.code) == ("refused", "over-capacity")
    (item,) = run(client, recording, allow=frozenset({"over-capacity"})).results
    assert str(item.status) == "applied"


def test_hosts_and_host_aggregates_narrow_the_run() -> None:
    recording = nova(
        az1=(["h0", "h1", "h2"], {"cpu_allocation_ratio": "8.0"}),
        ssd=(["h1", "h2"], {"cpu_allocation_ratio": "2.0"}),
        empty=([], {"cpu_allocation_ratio": "1"}),
    )
    for request, expected in (
        ({"hosts": frozenset({"h0"})}, [8.0, 16.0, 16.0]),
        ({"host_aggregates": ("ssd",)}, [16.0, 2.0, 2.0]),
        ({"host_aggregates": ("ssd",), "hosts": frozenset({"h2"})}, [16.0, 16.0, 2.0]),
        ({"host_aggregates": ("empty",)}, [16.0, 16.0, 16.0]),
    ):
        client = cloud()
        run(client, recording, **request)
        assert ratios(client)[:3] == expected
    with pytest.raises(errors.InvalidInput) as caught:
        run(cloud(), recording, hosts=frozenset({"nope"}), host_aggregates=("none",))
    assert len(caught.value.reasons) == 2

# SPDX-License-Identifier: Apache-2.0
"""Gabbi fixtures that seed a Placement service through its HTTP API alone.

The yaml files of openstack-placement name fixture classes; the classes here carry
the same names and leave the service in the same state, and os.environ with the same
keys, as the ones that the real service's own tests use (which write to the database
in process). Nothing here imports OpenStack code.

What "the same state" includes, because some tests assert it:

* provider generations: one POST per inventory (each adds 1), aggregates set at
  microversion 1.18 (there they do not touch the generation), one PUT of traits
  (adds 1), one PUT of allocations (adds 1 to every provider in it);
* consumers made by a fixture have no consumer type (allocations are written at 1.37,
  below the microversion that introduced the type);
* the order of creation.

``config`` of a class is the server configuration that it needs: see tests/support/peer.
Call ``seeding.configure(base_url, seed)`` before a suite runs, and hand this module to gabbi
as ``fixture_module``.
"""

from __future__ import annotations

import os

from gabbi import fixture

from tests.support.conformance.seeding import Provider, allocate, new_uuid, publish


class APIFixture(fixture.GabbiFixture):
    """An empty service and a set of unused names and uuids."""

    config = "default"

    RANDOM = (
        "RP_UUID",
        "RP_NAME",
        "RP_UUID1",
        "RP_NAME1",
        "RP_UUID2",
        "RP_NAME2",
        "PROJECT_ID",
        "ADMIN_PROJECT_ID",
        "SERVICE_PROJECT_ID",
        "USER_ID",
        "PROJECT_ID_ALT",
        "USER_ID_ALT",
        "INSTANCE_UUID",
        "MIGRATION_UUID",
        "CONSUMER_UUID",
        "PARENT_PROVIDER_UUID",
        "ALT_PARENT_PROVIDER_UUID",
    )

    def start_fixture(self):
        publish(**{name: new_uuid() for name in self.RANDOM})
        publish(
            CUSTOM_RES_CLASS="CUSTOM_IRON_NFV",
            CUSTOM_RES_CLASS1="CUSTOM_IRON_NFV1",
            CUSTOM_RES_CLASS2="CUSTOM_IRON_NFV2",
        )
        self.seed()

    def seed(self):
        """Nothing in a plain one."""


class OpenPolicyFixture(APIFixture):
    config = "open-policy"


class SecureRBACPolicyFixture(APIFixture):
    config = "secure-rbac"


class LegacyRBACPolicyFixture(APIFixture):
    config = "legacy-rbac"


class CORSFixture(APIFixture):
    config = "cors"


class AllocationFixture(APIFixture):
    """One provider (DISK_GB 2048, VCPU 10) and three consumers of it:

    CONSUMER_0       USER_ID      DISK_GB 1000
    CONSUMER_ID      USER_ID      VCPU 6
    ALT_CONSUMER_ID  ALT_USER_ID  DISK_GB 20, VCPU 1
    """

    def seed(self):
        publish(ALT_USER_ID=new_uuid(), ALT_RP_UUID=new_uuid(), ALT_RP_NAME=new_uuid())
        env = os.environ
        project = env["PROJECT_ID"]
        rp = Provider(env["RP_NAME"], uuid=env["RP_UUID"])
        rp.inventory("DISK_GB", 2048, step_size=10, min_unit=10, max_unit=1000)
        rp.inventory("VCPU", 10)
        publish(
            CONSUMER_0=allocate(rp, {"DISK_GB": 1000}, env["USER_ID"], project),
            CONSUMER_ID=allocate(rp, {"VCPU": 6}, env["USER_ID"], project),
            ALT_CONSUMER_ID=allocate(rp, {"DISK_GB": 20, "VCPU": 1}, env["ALT_USER_ID"], project),
        )


class SharedStorageFixture(APIFixture):
    """Two computes and two sharing storages in one aggregate; below each
    compute two NUMA nodes with one PF each; only cn2 has a disk of its own.
    """

    def seed(self):
        agg = new_uuid()
        cns = [Provider(f"cn{i}", agg) for i in (1, 2)]
        stores = [Provider(name, agg) for name in ("ss", "ss2")]
        numas = [Provider(f"numa{c}_{i}", parent=cns[c - 1]) for c in (1, 2) for i in (1, 2)]
        pfs = [Provider(numa.name.replace("numa", "pf"), parent=numa) for numa in numas]
        publish(AGG_UUID=agg)
        for rp in cns + stores + numas + pfs:
            publish(**{rp.name.upper() + "_UUID": rp})

        for cn in cns:
            cn.inventory("VCPU", 24, allocation_ratio=16.0)
            cn.inventory("MEMORY_MB", 128 * 1024, allocation_ratio=1.5)
        cns[0].traits("HW_CPU_X86_SSE", "HW_CPU_X86_SSE2")
        cns[1].inventory("DISK_GB", 2000, reserved=100, allocation_ratio=1.0)
        for store in stores:
            store.inventory("DISK_GB", 2000, reserved=100, allocation_ratio=1.0)
            store.traits("MISC_SHARES_VIA_AGGREGATE")
        for pf in pfs:
            pf.inventory("SRIOV_NET_VF", 8, allocation_ratio=1.0)


class NUMAAggregateFixture(APIFixture):
    """Two computes without resources; two NUMA nodes with VCPU below each.
    aggA: cn1, cn2, ss1.  aggB: cn2.  aggC: numa1_1, ss2.
    """

    def seed(self):
        a, b, c = new_uuid(), new_uuid(), new_uuid()
        cn1 = Provider("cn1", a)
        cn2 = Provider("cn2", a, b)
        stores = [Provider("ss1", a), Provider("ss2", c)]
        numas = [
            Provider("numa1_1", c, parent=cn1),
            Provider("numa1_2", parent=cn1),
            Provider("numa2_1", parent=cn2),
            Provider("numa2_2", parent=cn2),
        ]
        publish(AGGA_UUID=a, AGGB_UUID=b, AGGC_UUID=c)
        for rp in [cn1, cn2, *stores, *numas]:
            publish(**{rp.name.upper() + "_UUID": rp})
        for numa in numas:
            numa.inventory("VCPU", 24, allocation_ratio=16.0)
        for store in stores:
            store.inventory("DISK_GB", 2000, reserved=100, allocation_ratio=1.0)
            store.traits("MISC_SHARES_VIA_AGGREGATE")


class NUMANetworkFixture(APIFixture):
    """Two computes and a sharing disk (ss1), all in aggA.

    cn1  COMPUTE_VOLUME_MULTI_ATTACH, no inventory
      numa0  HW_NUMA_ROOT; VCPU 4 (2 used); MEMORY_MB 2048 min 512 step 256
        fpga0  FPGA 1
        pgpu0  VGPU 8
      numa1  HW_NUMA_ROOT, CUSTOM_FOO; VCPU 4; MEMORY_MB 2048 min 256 max 1024
        fpga1_0, fpga1_1  FPGA 1
      sriov_agent  CUSTOM_VNIC_TYPE_DIRECT
        esn1  CUSTOM_PHYSNET1; NET_BW_EGR_KILOBIT_PER_SEC 10000
        esn2  CUSTOM_PHYSNET2; NET_BW_EGR_KILOBIT_PER_SEC 20000
      ovs_agent  CUSTOM_VNIC_TYPE_NORMAL
        br_int  CUSTOM_PHYSNET0; NET_BW_EGR_KILOBIT_PER_SEC 1000
    cn2  CUSTOM_FOO; VCPU 8 (3 used); MEMORY_MB 2048 min 1024 step 128;
         DISK_GB 1000
      nic1  CUSTOM_HW_NIC_ROOT; pf1_1 (NET1), pf1_2 (NET2): CUSTOM_VF 4
      nic2  CUSTOM_HW_NIC_ROOT; pf2_1..4 (NET1, 2, 1, 2):   CUSTOM_VF 2
      nic3  CUSTOM_HW_NIC_ROOT; pf3_1 (NET1):               CUSTOM_VF 8
    ss1  MISC_SHARES_VIA_AGGREGATE; DISK_GB 2000
    """

    def computes(self):
        """Parents of (cn1, cn2)."""
        return None, None

    def seed(self):
        parents = self.computes()
        made_first = parents != (None, None)
        agg = new_uuid()
        user, project = "numafx-user", "numafx-project"
        published = []

        def child(name, parent):
            rp = Provider(name, parent=parent)
            published.append(rp)
            return rp

        if made_first:
            cn1, cn2 = (child(f"cn{i}", parents[i - 1]) for i in (1, 2))

        ss1 = child("ss1", None).aggregates(agg)
        ss1.traits("MISC_SHARES_VIA_AGGREGATE").inventory("DISK_GB", 2000)

        if not made_first:
            cn1 = child("cn1", None)
        cn1.aggregates(agg).traits("COMPUTE_VOLUME_MULTI_ATTACH")

        numas = []
        for i, traits in enumerate((["HW_NUMA_ROOT"], ["HW_NUMA_ROOT", "CUSTOM_FOO"])):
            numas.append(child(f"numa{i}", cn1).traits(*traits).inventory("VCPU", 4))
        numas[0].inventory("MEMORY_MB", 2048, min_unit=512, step_size=256)
        numas[1].inventory("MEMORY_MB", 2048, min_unit=256, max_unit=1024)
        allocate(numas[0], {"VCPU": 2}, user, project)

        child("fpga0", numas[0]).inventory("FPGA", 1)
        child("pgpu0", numas[0]).inventory("VGPU", 8)
        for i in (0, 1):
            child(f"fpga1_{i}", numas[1]).inventory("FPGA", 1)

        agent = child("sriov_agent", cn1).traits("CUSTOM_VNIC_TYPE_DIRECT")
        for i in (1, 2):
            (
                child(f"esn{i}", agent)
                .traits(f"CUSTOM_PHYSNET{i}")
                .inventory("NET_BW_EGR_KILOBIT_PER_SEC", 10000 * i)
            )
        agent = child("ovs_agent", cn1).traits("CUSTOM_VNIC_TYPE_NORMAL")
        (
            child("br_int", agent)
            .traits("CUSTOM_PHYSNET0")
            .inventory("NET_BW_EGR_KILOBIT_PER_SEC", 1000)
        )

        if not made_first:
            cn2 = child("cn2", None)
        cn2.aggregates(agg).inventory("VCPU", 8)
        allocate(cn2, {"VCPU": 3}, user, project)
        cn2.inventory("MEMORY_MB", 2048, min_unit=1024, step_size=128)
        cn2.inventory("DISK_GB", 1000).traits("CUSTOM_FOO")

        nics = [child(f"nic{i}", cn2).traits("CUSTOM_HW_NIC_ROOT") for i in (1, 2, 3)]
        for nic, nets, vfs in zip(nics, ((1, 2), (1, 2, 1, 2), (1,)), (4, 2, 8), strict=False):
            for i, net in enumerate(nets, 1):
                (
                    child(f"pf{nic.name[-1]}_{i}", nic)
                    .traits(f"CUSTOM_PHYSNET{net}")
                    .inventory("CUSTOM_VF", vfs)
                )

        publish(AGGA_UUID=agg)
        for rp in published:
            publish(**{rp.name.upper() + "_UUID": rp})


class DeepNUMANetworkFixture(NUMANetworkFixture):
    """As its parent, with empty p1 above cn1, p2 above cn2, gp1 above both."""

    def computes(self):
        top = Provider("gp1")
        return tuple(Provider(f"p{i}", parent=top) for i in (1, 2))


class NonSharedStorageFixture(APIFixture):
    """Three computes with a disk each; three aggregates without members."""

    def seed(self):
        publish(AGGA_UUID=new_uuid(), AGGB_UUID=new_uuid(), AGGC_UUID=new_uuid())
        computes = [Provider(f"cn{i}") for i in (1, 2, 3)]
        for cn in computes:
            publish(**{cn.name.upper() + "_UUID": cn})
            cn.inventory("VCPU", 24)
            cn.inventory("MEMORY_MB", 128 * 1024)
            cn.inventory("DISK_GB", 2000)


class GranularFixture(APIFixture):
    """Three computes, two sharing disks, one sharing network.

    aggA: cn_left, cn_middle, shr_disk_1, shr_disk_2
    aggB: cn_middle, cn_right, shr_disk_2
    aggC: cn_right, shr_net
    """

    TABLE = (
        (
            "cn_left",
            "A",
            "VCPU 8, MEMORY_MB 4096, DISK_GB 500, VGPU 8, SRIOV_NET_VF 8, CUSTOM_NET_MBPS 4000",
            "HW_CPU_X86_AVX HW_CPU_X86_AVX2 HW_GPU_API_DXVA HW_NIC_DCB_PFC CUSTOM_FOO",
        ),
        (
            "cn_middle",
            "AB",
            "VCPU 8, MEMORY_MB 4096, SRIOV_NET_VF 8, CUSTOM_NET_MBPS 4000",
            "HW_CPU_X86_AVX HW_CPU_X86_AVX2 HW_CPU_X86_SSE HW_NIC_ACCEL_TLS",
        ),
        (
            "cn_right",
            "BC",
            "VCPU 8, MEMORY_MB 4096, DISK_GB 500, VGPU 8 2",
            "HW_CPU_X86_MMX HW_GPU_API_DXVA CUSTOM_DISK_SSD",
        ),
        ("shr_disk_1", "A", "DISK_GB 1000", "MISC_SHARES_VIA_AGGREGATE CUSTOM_DISK_SSD"),
        ("shr_disk_2", "AB", "DISK_GB 1000", "MISC_SHARES_VIA_AGGREGATE"),
        ("shr_net", "C", "SRIOV_NET_VF 16, CUSTOM_NET_MBPS 40000", "MISC_SHARES_VIA_AGGREGATE"),
    )

    def seed(self):
        aggs = {letter: new_uuid() for letter in "ABC"}
        publish(**{"AGG" + letter: aggs[letter] for letter in aggs})
        for name, letters, inventories, traits in self.TABLE:
            rp = Provider(name, *(aggs[letter] for letter in letters))
            publish(**{name.upper(): rp})
            for inventory in inventories.split(", "):
                resource_class, total, *top = inventory.split()
                more = {"max_unit": int(top[0])} if top else {}
                rp.inventory(resource_class, int(total), **more)
            rp.traits(*traits.split())


class NeutronQoSMultiSegmentFixture(APIFixture):
    """Four computes, each with an OVS agent with bridges and an SR-IOV agent
    with PFs, on the physical networks:

    compute0 OTHER, compute1 MSN_S1, compute2 MSN_S2, compute3 both of the MSN
    (two bridges, two PFs), with less bandwidth.
    """

    DIRECT = (
        "CUSTOM_VNIC_TYPE_DIRECT",
        "CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL",
        "CUSTOM_VNIC_TYPE_MACVTAP",
    )

    def seed(self):
        self.compute("compute0", ["OTHER"], 5000, 10000)
        self.compute("compute1", ["MSN_S1"], 5000, 10000)
        self.compute("compute2", ["MSN_S2"], 5000, 10000)
        self.compute("compute3", ["MSN_S1", "MSN_S2"], 1000, 1000)

    def compute(self, name, nets, ovs_bandwidth, pf_bandwidth):
        compute = Provider(name)
        compute.inventory("VCPU", 8)
        compute.inventory("MEMORY_MB", 4096)
        compute.inventory("DISK_GB", 500)
        publish(**{name: compute})

        ovs = Provider(name + ":Open vSwitch agent", parent=compute)
        ovs.inventory("NET_PACKET_RATE_KILOPACKET_PER_SEC", 1000)
        ovs.traits("CUSTOM_VNIC_TYPE_NORMAL")
        publish(**{name + ":ovs_agent": ovs})
        for suffix, net in zip(("", "2"), nets, strict=False):
            bridge = Provider(f"{ovs.name}:br-ex{suffix}", parent=ovs)
            self.bandwidth(bridge, ovs_bandwidth)
            bridge.traits("CUSTOM_VNIC_TYPE_NORMAL", "CUSTOM_PHYSNET_" + net)
            publish(**{f"{name}:br_ex{suffix}": bridge})

        sriov = Provider(name + ":NIC Switch agent", parent=compute)
        sriov.traits(*self.DIRECT)
        publish(**{name + ":sriov_agent": sriov})
        for i, net in enumerate(nets):
            pf = Provider(f"{sriov.name}:enp129s0f{i}", parent=sriov)
            self.bandwidth(pf, pf_bandwidth)
            pf.traits(*self.DIRECT, "CUSTOM_PHYSNET_" + net)
            publish(**{f"{name}:pf{i}": pf})

    @staticmethod
    def bandwidth(rp, amount):
        rp.inventory("NET_BW_EGR_KILOBIT_PER_SEC", amount)
        rp.inventory("NET_BW_IGR_KILOBIT_PER_SEC", amount)

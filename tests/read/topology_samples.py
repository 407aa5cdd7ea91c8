"""Small topologies, written for these tests."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data" / "measured" / "04_topology"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the topologies in ../shared")

SWITCHED = '<nvlink target="0000:99:00.0" count="{0}" tclass="0x068000"/>'


def nccl(
    *,
    gpus: int = 4,
    links: int = 18,
    speed: int = 400_000,
    near: bool = True,
    gdr: int = 1,
    width: int = 16,
    nics: int | None = None,
) -> str:
    """A dump of NCCL: two memory nodes, one adapter a GPU, below the same PCIe switch or not."""
    halves = []
    for node in range(2):
        inner = []
        for i in range(node * gpus // 2, (node + 1) * gpus // 2):
            gpu = (
                f'<pci busid="0000:{i:02x}:01.0" class="0x030200" vendor="0x10de" device="0x2330"'
                f' link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{i}" sm="90" rank="{i}"'
                f' gdr="{gdr}">{SWITCHED.format(links) if links else ""}</gpu></pci>'
            )
            nic = (
                f'<pci busid="0000:{i:02x}:02.0" class="0x020700" vendor="0x15b3" device="0x1021"'
                f' link_speed="32.0 GT/s PCIe" link_width="{width}"><nic><net name="mlx5_{i}"'
                f' dev="{i}" speed="{speed}" port="1" gdr="{gdr}"/></nic></pci>'
            ) * (nics is None or i < nics)
            switch = f'<pci busid="0000:{i + 64:02x}:00.0" class="0x060400">'
            inner.append(f"{switch}{gpu}{nic}</pci>" if near else f"{switch}{gpu}</pci>{nic}")
        affinity = f"0000{'ffff' if node else '0000'},{'0000ffff' if not node else '00000000'}"
        halves.append(f'<cpu numaid="{node}" affinity="{affinity}">\n{"".join(inner)}\n</cpu>')
    return '<system version="1">\n' + "\n".join(halves) + "\n</system>\n"


SMI = """
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tNV12\tNV12\tPXB\tSYS\t0-7,16-23\t0\t\tN/A
GPU1\tNV12\t X \tNV12\tNV12\tPXB\tSYS\t0-7,16-23\t0\t\tN/A
GPU2\tNV12\tNV12\t X \tNV12\tSYS\tPIX\t8-15,24-31\t1\t\tN/A
GPU3\tNV12\tNV12\tNV12\t X \tSYS\tPIX\t8-15,24-31\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPIX\tPIX\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_7
"""

ROCM = """
==================== Weight between two GPUs ====================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
==================== Link Type between two GPUs ====================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
"""

LSTOPO = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000003">
  <object type="Package" os_index="0" cpuset="0x00000003" nodeset="0x00000001">
   <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001"/>
   <object type="Bridge" bridge_type="0-1" depth="0">
    <object type="Bridge" bridge_type="1-1" pci_busid="0000:01:00.0" pci_link_speed="15.75">
     <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:01.0">
      <object type="PCIDev" gp_index="11" pci_busid="0000:03:00.0"
        pci_type="0302 [10de:1db5] [10de:1249] a1 00" pci_link_speed="15.753846">
       <object type="OSDev" gp_index="21" name="nvml0" osdev_type="1">
        <info name="GPUModel" value="Tesla V100-SXM2-32GB"/></object>
      </object>
     </object>
     <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:02.0">
      <object type="PCIDev" gp_index="12" pci_busid="0000:04:00.0"
        pci_type="0207 [15b3:1017] [15b3:0006] 00 00" pci_link_speed="15.753846">
       <object type="OSDev" gp_index="30" name="ib0" osdev_type="2"/>
       <object type="OSDev" gp_index="31" name="mlx5_0" osdev_type="3">
        <info name="NodeGUID" value="b859:9f03:0001:0002"/></object>
      </object>
     </object>
    </object>
    <object type="PCIDev" gp_index="40" pci_busid="0000:05:00.0"
      pci_type="0300 [1a03:2000] [1a03:2000] 41 00"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x0000000c" nodeset="0x00000002">
   <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x00000002"/>
   <object type="Bridge" bridge_type="0-1" depth="0">
    <object type="Bridge" bridge_type="1-1" pci_busid="0000:81:00.0">
      <object type="PCIDev" gp_index="13" pci_busid="0000:82:00.0"
        pci_type="0302 [10de:1db5] [10de:1249] a1 00" pci_link_speed="15.753846">
       <object type="OSDev" gp_index="22" name="nvml1" osdev_type="1"/>
      </object>
    </object>
   </object>
  </object>
 </object>
 <distances2hetero nbobjs="2" kind="25" name="NVLinkBandwidth">
  <indexes length="18">OSDev:21 OSDev:22 </indexes>
  <u64values length="30">1000000 50000 50000 1000000 </u64values>
 </distances2hetero>
</topology>
"""

IBNET = """#
# Topology file: generated on a desk
#
switchguid=0x1(1)
Switch\t65 "S-0000000000000001"\t\t# "MF0;leaf-1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1]\t"H-00000000000000a1"[1](a1) \t\t# "host-1 mlx5_0" lid 11 4xNDR
[2]\t"H-00000000000000a2"[1](a2) \t\t# "host-2 mlx5_0" lid 12 4xNDR
[3]\t"S-0000000000000003"[1]\t\t# "MF0;spine-1:MQM9700/U1" lid 3 4xNDR
[4]\t"S-0000000000000003"[2]\t\t# "MF0;spine-1:MQM9700/U1" lid 3 4xNDR
[65]\t"H-00000000000000f1"[1](f1) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xNDR

switchguid=0x2(2)
Switch\t65 "S-0000000000000002"\t\t# "MF0;leaf-2:MQM9700/U1" enhanced port 0 lid 2 lmc 0
[1]\t"H-00000000000000a3"[1](a3) \t\t# "host-3 mlx5_0" lid 13 2xNDR
[2]\t"H-00000000000000a4"[1](a4) \t\t# "host-4 mlx5_0" lid 14 4xNDR
[3]\t"S-0000000000000003"[3]\t\t# "MF0;spine-1:MQM9700/U1" lid 3 4xNDR

switchguid=0x3(3)
Switch\t65 "S-0000000000000003"\t\t# "MF0;spine-1:MQM9700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"S-0000000000000001"[3]\t\t# "MF0;leaf-1:MQM9700/U1" lid 1 4xNDR
[2]\t"S-0000000000000001"[4]\t\t# "MF0;leaf-1:MQM9700/U1" lid 1 4xNDR
[3]\t"S-0000000000000002"[3]\t\t# "MF0;leaf-2:MQM9700/U1" lid 2 4xNDR

caguid=0xa1
Ca\t1 "H-00000000000000a1"\t\t# "host-1 mlx5_0"
[1](a1) \t"S-0000000000000001"[1]\t\t# lid 11 lmc 0 "MF0;leaf-1:MQM9700/U1" lid 1 4xNDR
"""

GRAPH = """<graphs version="1">
 <graph id="0" pattern="4" crossnic="1" nchannels="2" speedintra="20" speedinter="12.5"
   typeintra="NVL" typeinter="PXB" samechannels="0">
  <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
  <channel><net dev="1"/><gpu dev="1"/><gpu dev="0"/><net dev="1"/></channel>
 </graph>
</graphs>
"""

TOPOGRAPH = """switches:
  core: {switches: [leaf-1, leaf-2]}
blocks:
- {switch: leaf-1, nodes: ["node[001-003]"]}
- {switch: leaf-2, nodes: [other]}
"""

NETQ = """[{"nodes": [{"compounded_nodes": [{"id": "n0", "device_type": "switch", "name": "leaf"},
 {"id": "n1", "device_type": "host", "name": "dgx-1"}]}],
 "links": [{"src": "n0", "target": "n1", "compounded_links": [{"id": "a"}, {"id": "b"}]}]}]
"""

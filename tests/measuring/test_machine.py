"""Machines are described in plain words."""

import pytest

from measuring import machine


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ("avx2 avx512f avx512_vnni amx_int8", "AMX"),
        ("avx2 avx512f avx512_vnni avx_vnni", "AVX-512 VNNI"),
        ("avx2 avx_vnni", "AVX-VNNI"),
        ("avx2 avx512f", "AVX-512 without VNNI"),
        ("sse4_2 avx2", "AVX2 only"),
        ("sse4_2", "unknown kind"),
    ],
)
def test_the_kind_of_a_processor_follows_from_its_flags(flags, kind, monkeypatch, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"model name\t: Fast\nflags\t\t: fpu {flags}\n")
    monkeypatch.setattr(machine, "CPUINFO", cpuinfo)
    assert machine.processor_kind() == kind
    line = machine.describe_machine([], threads="1")
    assert line.startswith(f"Machine: Fast ({kind}), ")


def test_the_generation_of_a_processor_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    machine.CPUINFO.write_text("cpu family\t: 25\nmodel\t: 17\nmodel name\t: Fast\nflags\t: avx2\n")
    line = machine.describe_machine([], threads="1")
    assert line.startswith("Machine: Fast, family 25, model 17 (AVX2 only), ")


def test_processors_of_arm_and_machines_without_a_list(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    assert machine.processor_kind() == "unknown kind"
    machine.CPUINFO.write_text("Features\t: fp asimd asimddp i8mm\n")
    assert machine.processor_kind() == "ARM i8mm"

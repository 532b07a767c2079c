"""Facts in words."""

from __future__ import annotations

import pytest

from winml.modelkit.console import words
from winml.modelkit.documents import Library, Machine


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4869272, "4.6 MiB"), (3 * 1024**3, "3.0 GiB"),
     (2048 * 1024**3, "2048.0 GiB")],
)  # fmt: skip
def test_size(count: int | None, text: str) -> None:
    assert words.size(count) == text


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ((None, None), "-"),
        ((0x8086, 0x7D1D), "8086:7d1d"),
        ((0x1022, None), "1022:-"),
        ((0x4D4F4351, 1), "4d4f4351:0001"),
    ],
)
def test_pci_id(ids: tuple[int | None, int | None], text: str) -> None:
    assert words.pci_id(*ids) == text


@pytest.mark.parametrize(
    ("share", "signed", "text"),
    [(None, False, "-"), (1.0, False, "100%"), (0.9636, False, "96.4%"), (0.0, False, "0.0%"), (-0.02, True, "-2.0%"),
     (1.0, True, "+100.0%"), (0.9999, False, "100.0%")],
)  # fmt: skip
def test_percent(share: float | None, signed: bool, text: str) -> None:
    assert words.percent(share, signed=signed) == text


@pytest.mark.parametrize(("value", "text"), [(164.2, "164"), (20.51, "20.5"), (0.0123, "0.0123"), (48321.0, "48321")])
def test_rate(value: float, text: str) -> None:
    assert words.rate(value) == text


def test_a09_versions_are_told_apart_only_where_they_differ() -> None:
    library = Library(path="/x", source="pypi", package_version="2.7.0", plugin_version="0.1.0")
    assert words.version_differences(library) == "versions: package 2.7.0, EP 0.1.0"
    library.plugin_version = "2.7.0"
    assert words.version_differences(library) is None
    library.plugin_version = None
    assert words.version_differences(library) is None


def machine(**changes: object) -> Machine:
    facts: dict[str, object] = {
        "winml": "0.1.0", "python": "3.11.7", "os": "Debian", "kernel": "6.1", "machine": "x86_64", "cpu": "Some CPU",
        "cpus_logical": 8, "cpus_physical": 4, "cpus_available": 2, "memory_bytes": 8 * 1024**3,
        "memory_available_bytes": 4 * 1024**3, "onnxruntime": {"onnxruntime": "1.32.0"},
    }  # fmt: skip
    return Machine(**{**facts, **changes})  # type: ignore[arg-type]


def test_machine_lines() -> None:
    assert words.machine_lines(machine(), "1.32.0") == [
        "winml 0.1.0 · onnxruntime 1.32.0 · Python 3.11.7",
        "Some CPU · 8 CPUs on 4 cores, 2 for this process · 8.0 GiB memory, 4.0 GiB available",
        "Debian · 6.1 · x86_64",
    ]


def test_machine_lines_with_facts_missing() -> None:
    bare = machine(kernel=None, machine=None, cpu=None, cpus_logical=None, cpus_physical=None, cpus_available=1,
                   memory_bytes=None, memory_available_bytes=None, onnxruntime={})  # fmt: skip
    assert words.machine_lines(bare) == [
        "winml 0.1.0 · no onnxruntime · Python 3.11.7",
        "unknown CPU · 1 CPU",
        "Debian",
    ]


def test_machine_lines_name_a_runtime_that_is_no_installed_distribution() -> None:
    assert "onnxruntime 1.33.0 (onnxruntime 1.32.0)" in words.machine_lines(machine(), "1.33.0")[0]

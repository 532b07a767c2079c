"""Hardware counters to look at: sparklines, the live lines, and the table afterwards."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.console.layout import draw
from winml.modelkit.console.live_chart import LABELS, HardwareChart, hardware_blocks, spark
from winml.modelkit.console.streams import Look
from winml.modelkit.perf.document import Counter, Hardware
from winml.modelkit.session.monitor.hw_monitor import Reading
from winml.modelkit.session.monitor.hw_source import COUNTERS, DEVICE_COUNTERS

PLAIN = Look(terminal=False, color=False, unicode=True, width=None)
MIB = 2.0**20

READINGS = {
    "process_cpu": Reading("% of one CPU", [None, 100.0, 200.0], 150.0, 200.0),
    "process_rss": Reading("bytes", [64 * MIB, 128 * MIB], 96 * MIB, 128 * MIB),
    "device_energy": Reading("J", [0.0, 12.5], None, 12.5),
}


def drawn(readings: dict[str, Reading], *, unicode: bool = True, width: int = 80) -> list[str]:
    """The lines a terminal of that width shows."""
    from rich.console import Console

    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=False, color_system=None)
    console.print(HardwareChart(lambda: readings, unicode=unicode))
    return output.getvalue().splitlines()


# --- sparklines ---------------------------------------------------------------------------------------------


def test_levels_go_from_0_to_the_top() -> None:
    assert spark([0.0, 12.5, 25.0, 50.0, 87.5, 100.0], 10, 100.0) == "▁▂▃▅██"


def test_b08_a_gap_is_not_a_0() -> None:
    assert spark([0.0, None, 0.0], 10, 100.0) == "▁ ▁"
    assert spark([None, None], 10, 100.0) == "  "


def test_only_what_fits_is_drawn_and_it_is_the_newest() -> None:
    assert spark([100.0, 0.0, 100.0], 2, 100.0, unicode=False) == "_#"


@given(
    st.lists(st.none() | st.floats(0, 1e12), max_size=100),
    st.integers(1, 60),
    st.floats(0, 1e12),
    st.booleans(),
)
def test_any_values_make_one_character_each(values: list[float | None], width: int, top: float, unicode: bool) -> None:
    text = spark(values, width, top, unicode=unicode)
    assert len(text) == min(width, len(values))
    for value, character in zip(values[-width:], text, strict=True):
        assert (character == " ") == (value is None)


def test_ascii_terminals_get_ascii() -> None:
    assert "".join(drawn(READINGS, unicode=False)).isascii()


# --- live ---------------------------------------------------------------------------------------------------


def test_one_line_for_every_counter_with_now_mean_and_peak() -> None:
    head, cpu, memory, energy = drawn(READINGS)
    assert head.split() == ["now", "mean", "peak"]
    assert cpu.startswith("process CPU")
    assert cpu.split()[-3:] == ["200%", "150%", "200%"]
    assert " ▅█ " in cpu
    assert memory.endswith("128.0 MiB   96.0 MiB  128.0 MiB")
    assert energy.endswith("12.5 J          -     12.5 J")


@pytest.mark.parametrize("width", [80, 79, 60, 50, 132])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    reading = Reading("bytes", [1023 * MIB] * 64, 1023.9 * MIB, 1023.9 * MIB)
    lines = drawn(dict.fromkeys(LABELS, reading), width=width)
    assert len(lines) == len(LABELS) + 1
    for line in lines:
        assert len(line) < width
    assert len(set(map(len, lines))) == 1  # the columns stand in line


def test_b08_counters_without_a_value_are_not_drawn() -> None:
    assert drawn({}) == []
    text = "\n".join(drawn(READINGS))
    assert "device use" not in text


def test_now_is_the_last_value_that_could_be_read() -> None:
    lines = drawn({"device_utilisation": Reading("%", [40.0, None], 40.0, 40.0)})
    assert lines[1].split()[-3:] == ["40%", "40%", "40%"]


def test_every_counter_has_a_label() -> None:
    assert list(LABELS) == list(COUNTERS)


# --- afterwards ---------------------------------------------------------------------------------------------


def counter(unit: str, values: list[float | None], *, mean: bool = True) -> Counter:
    known = [value for value in values if value is not None]
    return Counter(
        unit=unit, source="a test", values=values, mean=sum(known) / len(known) if mean else None, peak=max(known)
    )


def seen() -> Hardware:
    """Five samples; the runs were timed from the second one to the fourth."""
    return Hardware(
        interval_s=0.1,
        times_s=[0.0, 0.1, 0.2, 0.3, 0.4],
        counters={
            "process_cpu": counter("% of one CPU", [None, 10.0, 150.0, 170.0, 30.0]),
            "process_rss": counter("bytes", [64 * MIB, 64 * MIB, 128 * MIB, 128 * MIB, 128 * MIB]),
            "process_uss": counter("bytes", [32 * MIB, None, None, None, None]),
            "package_energy": counter("J", [0.0, 1.0, 3.0, 6.0, 6.5], mean=False),
            "device_utilisation": Counter(unit="%", source=None, reason="no NPU"),
            "device_memory": Counter(unit="bytes", source=None, reason="no NPU"),
            "device_power": Counter(unit="W", source=None, reason="its driver counts none"),
        },
        phases=[("make the session", 0.0), ("measure", 0.0998), ("after the runs", 0.2999)],
    )


@pytest.fixture
def text() -> Callable[[Hardware], str]:
    return lambda hardware: draw([*hardware_blocks(hardware)], PLAIN)


def test_summary_has_mean_peak_and_what_happened_while_measuring(text: Callable[[Hardware], str]) -> None:
    lines = text(seen()).splitlines()
    assert lines[0] == "Hardware, sampled every 100 ms over 0.4 s, from outside the worker"
    assert lines[1].split() == ["Counter", "n", "Mean", "Peak", "While", "measuring"]
    # The sample at 0.1 s begins the phase; its rate is of the time before.
    assert lines[2].split() == ["process", "CPU", "(of", "one", "CPU)", "4", "90%", "170%", "160%"]
    assert lines[3].split() == ["process", "memory", "5", "102.4", "MiB", "128.0", "MiB", "128.0", "MiB"]
    assert lines[4].split() == ["unique", "process", "memory", "1", "32.0", "MiB", "32.0", "MiB", "-"]
    # 6 J at its end less 1 J at its beginning
    assert lines[5].split() == ["CPU", "package", "energy", "5", "-", "6.5", "J", "in", "all", "5.0", "J"]


def test_b08_absent_counters_are_listed_with_reasons_and_without_numbers(text: Callable[[Hardware], str]) -> None:
    lines = text(seen()).splitlines()
    begin = lines.index("Not available")
    assert lines[begin + 1 :] == [
        "  device use, device memory: no NPU",
        "  device power: its driver counts none",
    ]
    assert not any("device" in line for line in lines[:begin])


def test_a_device_without_any_counter_takes_one_line(text: Callable[[Hardware], str]) -> None:
    hardware = seen()
    for name in DEVICE_COUNTERS:
        hardware.counters[name] = Counter(unit=COUNTERS[name], source=None, reason="the model ran on the CPU")
    assert text(hardware).endswith("Not available\n  the device's own counters: the model ran on the CPU\n")


def test_several_timed_phases_are_taken_together(text: Callable[[Hardware], str]) -> None:
    hardware = seen()
    hardware.phases = [("measure", 0.0), ("make the inputs", 0.1), ("measure", 0.3)]
    lines = text(hardware).splitlines()
    assert lines[2].split()[-1] == "20%"  # 10 and 30
    assert lines[5].split()[-2:] == ["1.5", "J"]  # 1 and 0.5


def test_without_timed_runs_there_is_nothing_while_measuring(text: Callable[[Hardware], str]) -> None:
    hardware = seen()
    hardware.phases = [("make the session", 0.0)]
    lines = text(hardware).splitlines()
    assert [line.split()[-1] for line in lines[2:6]] == ["-"] * 4


def test_a_phase_too_short_for_a_sample_has_no_figure(text: Callable[[Hardware], str]) -> None:
    hardware = seen()
    hardware.phases = [("measure", 0.4)]
    assert [line.split()[-1] for line in text(hardware).splitlines()[2:6]] == ["-"] * 4


def test_a_worker_that_died_at_once_leaves_only_reasons(text: Callable[[Hardware], str]) -> None:
    hardware = Hardware(
        interval_s=0.1, times_s=[], counters={"process_cpu": Counter(unit="% of one CPU", source=None, reason="why")}
    )
    assert text(hardware) == (
        "Hardware, sampled every 100 ms over 0.0 s, from outside the worker: nothing was sampled\n\n"
        "Not available\n  process CPU: why\n"
    )

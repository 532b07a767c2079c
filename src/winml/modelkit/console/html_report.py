"""The document of ``winml perf`` as one HTML file that needs nothing else: no network, no fonts, no libraries.

The page holds the document itself as JSON, and may run its own script only: its content security policy names the
script by its hash and forbids every request, so that even markup which slipped in could neither run nor call out.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from importlib.resources import files

import msgspec

from winml.modelkit.console.html_hardware import hardware
from winml.modelkit.console.html_latency import latency, noise_tone
from winml.modelkit.console.html_parts import Html, data_block, h, pairs, section, table, verbatim
from winml.modelkit.console.html_run import inputs, memory, phases, placement
from winml.modelkit.console.html_trace import TOP_K, trace
from winml.modelkit.console.json_out import to_json
from winml.modelkit.console.perf_words import (
    Unit,
    differences,
    emulation,
    library_line,
    passed_over,
    settings,
)
from winml.modelkit.console.words import absent, machine_lines, rate, size, version_differences
from winml.modelkit.documents import ErrorInfo
from winml.modelkit.perf.assemble import target_name
from winml.modelkit.perf.document import ModelFile, PerfDocument, PerfEffective, PerfRequested, PerfResult, Target

__all__ = ["render_html"]


def render_html(document: PerfDocument, *, top_k: int = TOP_K) -> str:
    """The whole page.

    Args:
        document: what to show; of a failed run, whatever it holds.
        top_k: at most so many operators and operator types in the tables; the JSON in the page has all.

    Returns:
        Text that is valid UTF-8, with ``\\n`` as line ends.
    """
    style, script = _asset("report.css"), _asset("report.js")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_sha256(script)}'; base-uri 'none'"
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="generator", content=f"winml {document.environment.winml}"),
        h("title", f"{_model_name(document)}: {document.summary}"),
        Html(f"<style>\n{style}</style>"),
    )
    body = h(
        "body",
        h("main", _title(document), *_sections(document, top_k), _footer(document)),
        data_block("winml-document", to_json(document)),
        Html(f"<script>{script}</script>"),
    )
    return f'<!doctype html>\n<html lang="en">{head}\n{body}</html>\n'


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _sections(document: PerfDocument, top_k: int) -> Iterator[Html]:
    result, effective = document.result, document.effective
    if document.error is not None:
        yield _failure(document.error)
    if document.warnings:
        notes = h("ul", [h("li", notice.message) for notice in document.warnings])
        yield h("div", h("h2", "Warnings"), notes, cls="box warn", id="warnings")
    if changed := [*differences(document)]:
        yield _differences(changed)
    if result is not None:
        yield latency(result)
        yield phases(result.phases_ms)
        yield memory(result.memory)
    if document.placement is not None:
        yield placement(document.placement)
    if document.trace is not None:
        yield trace(document.trace, top_k)
    if document.hardware is not None:
        yield hardware(document.hardware)
    yield _ran(effective) if effective is not None else _asked(document.requested)
    yield _environment(document)
    yield _again(document)


# --- the top ------------------------------------------------------------------------------------------------


def _model_name(document: PerfDocument) -> str:
    return document.effective.model.name if document.effective else document.requested.model


def _started(document: PerfDocument) -> str:
    """``2026-03-01 10:20:30 +0000``."""
    day, _, time = document.started.partition("T")
    return f"{day} {time[:8]} {time[8:]}".strip()


def _title(document: PerfDocument) -> Html:
    target = document.effective.target if document.effective else None
    over = " · ".join(filter(None, ("winml perf", _started(document), target_name(target) if target else None)))
    badges = h("ul", [h("li", text, cls=tone) for text, tone in _badges(document)], cls="badges", aria_label="Verdict")
    alarm = None
    if target is not None and target.emulated:
        loud, _, rest = emulation(target).partition(":")
        alarm = h("p", h("b", f"{loud}:"), rest, cls="alarm")
    return h(
        "header",
        h("p", over, cls="over"),
        h("h1", _model_name(document)),
        h("p", document.summary, cls="verdict", id="verdict"),
        badges,
        alarm,
        _figures(document, document.result) if document.result is not None else None,
    )


def _badges(document: PerfDocument) -> Iterator[tuple[str, str]]:
    status = {"ok": ("done", "good"), "failed": ("failed", "bad"), "interrupted": ("interrupted", "warn")}
    yield status[document.status]
    if document.result is not None:
        noise = document.result.noise
        yield noise.verdict or "noise not judged", noise_tone(noise)
    if document.trace is not None and document.trace.status == "failed":
        yield "no operator trace", "bad"


def _figures(document: PerfDocument, result: PerfResult) -> Html:
    """The figures that people look for first."""
    found = result.latency_ms

    def figure(name: str, value: str, after: str, **more: str) -> Html:
        return h("div", h("dt", name), h("dd", h("span", value, **more), " ", h("small", after)))

    def milliseconds(name: str, value: float, **more: str) -> Html:
        unit = Unit.of(value)
        return figure(name, unit.text(value), unit.name, **more)

    shown = [milliseconds("p50", found.p50, id="p50")]
    for name in ("p90", "p99"):
        value: float | None = getattr(found, name)
        if value is not None:
            shown.append(milliseconds(name, value))
    throughput = result.throughput
    if throughput.samples_per_s is not None:
        shown.append(figure("throughput", rate(throughput.samples_per_s), "samples/s"))
    else:
        shown.append(figure("throughput", rate(throughput.inferences_per_s), "inferences/s"))
    if document.placement is not None:
        nodes = f"{document.placement.target_nodes}/{document.placement.nodes_total}"
        shown.append(figure("nodes on the target", nodes, ""))
    if result.memory is not None and result.memory.peak_bytes is not None:
        value_text, _, unit_name = size(result.memory.peak_bytes).partition(" ")
        shown.append(figure("peak memory", value_text, unit_name))
    return h("dl", shown, cls="figures")


def _failure(error: ErrorInfo) -> Html:
    details = error.details
    parts: list[Html] = [h("p", error.reason, cls="say")]
    if error.hint:
        parts.append(h("p", h("b", "Next step: "), error.hint, cls="say"))
    if last := [str(line) for line in details.get("last_lines") or ()]:
        parts.append(h("p", "Last native output:", cls="dim"))
        parts.append(h("pre", verbatim(last)))
    original = details.get("original")
    if original and str(original) != error.reason:
        text = h("pre", verbatim(str(original).splitlines()))
        parts.append(h("details", h("summary", "Original text"), text))
    log = details.get("log")
    code = f"code {error.code} · exit code {error.exit_code}" + (f" · log {log}" if log else "")
    title = "Interrupted" if error.code == "interrupted" else "Failed"
    return h("div", h("h2", title), parts, h("p", code, cls="note"), cls="box bad", id="failure")


def _differences(changed: Sequence[tuple[str, str, str]]) -> Html:
    rows = [[h("code", name), asked, h("span", done, cls="warn")] for name, asked, done in changed]
    made = table([("Option", False), ("Asked", False), ("Done", False)], rows)
    return section("asked", "Asked for and done", "where they are not the same", [made])


# --- how it ran ---------------------------------------------------------------------------------------------


def _ran(effective: PerfEffective) -> Html:
    parts: list[Html] = []
    if effective.target is not None:
        parts += [h("h3", "Target"), pairs(_target(effective, effective.target))]
    parts += [h("h3", "Model"), pairs(_model(effective.model))]
    if effective.inputs:
        parts += [h("h3", "Inputs"), inputs(effective.inputs)]
    if effective.precision is not None or effective.threads is not None or effective.iterations is not None:
        parts += [h("h3", "Settings"), pairs(settings(effective))]
    return section("run", "What ran", "target, model, inputs, settings", parts)


def _asked(requested: PerfRequested) -> Html:
    """All there is where nothing ran."""
    given = [
        (name.replace("_", " "), str(value))
        for name, value in msgspec.structs.asdict(requested).items()
        if value not in (None, [], {}, False)
    ]
    return section("run", "What was asked for", "nothing ran", [pairs(given)])


def _target(effective: PerfEffective, target: Target) -> Iterator[tuple[str, str]]:
    yield "execution provider", target.ep
    emulated = f" (emulated on the {target.listed_device})" if target.emulated else ""
    yield "device", f"{target.device}{emulated}" + (f": {target.device_name}" if target.device_name else "")
    for name, value in target.device_facts.items():
        if value is not None and value != target.device_name:
            yield name[:1].lower() + name[1:], value
    yield "library", library_line(target)
    library = target.library
    if (versions := version_differences(library)) is not None:
        yield "versions", versions.removeprefix("versions: ")
    if library.path:
        yield "path", library.path
    if effective.rule:
        yield "chosen", effective.rule
    for line in passed_over(effective.passed_over):
        yield "passed over", line


def _model(model: ModelFile) -> Iterator[tuple[str, str]]:
    yield "file", model.path
    yield "size", size(model.bytes)
    if model.sha256:
        yield "sha256", model.sha256
    for part in model.external_data:
        known = ", ".join(str(part[key]) for key in ("path", "sha256") if part.get(key) is not None)
        yield "external data", known or absent(part)
    if model.opsets:
        yield "opsets", ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items())
    if model.ir_version is not None:
        yield "IR version", str(model.ir_version)
    if model.producer:
        yield "producer", model.producer


def _environment(document: PerfDocument) -> Html:
    lines = machine_lines(document.environment)
    names = ("software", "processor", "system")
    return section("environment", "Environment", "", [pairs(zip(names, lines, strict=True))])


def _again(document: PerfDocument) -> Html:
    parts: list[Html] = []
    buttons = [h("button", "Save the report as JSON", type="button", id="save")]
    if document.command:
        parts.append(h("pre", h("code", verbatim([_command_line(document)]), id="command"), cls="command"))
        buttons.insert(0, h("button", "Copy the command", type="button", id="copy"))
    parts.append(h("div", buttons, cls="actions"))
    if document.command:
        return section("command-line", "Run it again", "the exact command, and this report as data", parts)
    return section("command-line", "As data", "", parts)


def _command_line(document: PerfDocument) -> str:
    """Quoted for the shell of the system that it ran on."""
    if document.environment.os.startswith("Windows"):
        return subprocess.list2cmdline(document.command)
    return " ".join(map(_quote, document.command))


def _quote(argument: str) -> str:
    """For a POSIX shell; what a page can't show goes as escapes within ``$'...'``, which bash and zsh read.

    >>> _quote("a b"), _quote("a" + chr(10) + "b")
    ("'a b'", "$'a\\\\x0ab'")
    """
    if argument.isprintable():
        return shlex.quote(argument)
    spelt = "".join(
        f"\\{character}" if character in "\\'" else character if character.isprintable() else _escape(character)
        for character in argument
    )
    return f"$'{spelt}'"


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text, as Python carries it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"


def _footer(document: PerfDocument) -> Html:
    parts = filter(None, (f"winml {document.environment.winml}", document.schema, _started(document)))
    return h("footer", " · ".join(parts))

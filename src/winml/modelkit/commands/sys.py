"""``winml sys``: the machine, its devices, every EP library tried, and the readiness of every EP."""

from __future__ import annotations

from pathlib import Path

import click

from winml.modelkit.commands import options

EPILOG = """\b
--format compact prints one line per row, its columns parted by tabs:
  machine  os, machine, cpu, cpus available, memory in bytes
  runtime  onnxruntime, winml, python
  device   class, name, vendor, PCI id, architecture, driver, usable with,
           emulators
  ep       name, status, usable on, emulates, version of the package, of the
           EP, of the file, source, code, reason, path, shadowed by
  catalog  name, readiness, usable on, emulates, vendor, serves, reason,
           next step
  warning  code, message
"""


@click.command("sys", epilog=EPILOG)
@options.format_("text", "json", "compact")
@click.option("--list-ep", is_flag=True, help="Only the execution providers.")
@click.option("--list-device", is_flag=True, help="Only the devices.")
@options.ep_path
@options.timeout("Limit for each library.  [default: 15]")
@options.verbose
@options.quiet
def sys_command(
    format: str,
    list_ep: bool,
    list_device: bool,
    ep_path: tuple[str, ...],
    timeout: float | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Show this machine, its devices and every execution provider (EP).

    Each EP library that is found is loaded in a process of its own, within a time limit, and called usable only if a
    session ran a node on its device. The exit code is 0 as long as the report is complete, whatever its rows say.
    """
    from winml.modelkit.console.progress import Progress
    from winml.modelkit.session.ep_inventory import take_inventory
    from winml.modelkit.session.ep_isolation import DEFAULT_TIMEOUT_S
    from winml.modelkit.system.document import SECTIONS, Section
    from winml.modelkit.system.report import build

    sections: list[Section] = []
    if list_device:
        sections.append("devices")
    if list_ep:
        sections += ["eps", "catalog"]
    limit = DEFAULT_TIMEOUT_S if timeout is None else timeout
    with Progress(quiet=quiet, plain=verbose) as progress:
        progress.phase("trying every execution provider")
        inventory = take_inventory(
            ep_path, timeout=limit, progress=lambda library: progress.note(f"done: {Path(library).name}")
        )
        document = build(inventory, sections=sections or SECTIONS, ep_path=ep_path, timeout_s=limit)
    if format == "json":
        from winml.modelkit.console.json_out import write_document

        write_document(document)
    elif format == "compact":
        from winml.modelkit.console.sys_text import render_sys_compact

        render_sys_compact(document)
    else:
        from winml.modelkit.console.sys_text import render_sys

        render_sys(document, verbose=verbose)

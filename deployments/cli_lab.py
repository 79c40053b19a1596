"""The commands under `interlock lab`."""

from typing import Annotated

import typer

from deployments.command import AsJson, console, run

lab = typer.Typer(no_args_is_help=True, help="Container hosts to practise on; needs root.")


@lab.command()
def up(
    count: Annotated[int, typer.Option("--count", min=1, help="How many are to run.")] = 1,
    install: Annotated[bool, typer.Option("--install", help="Install missing Debian packages with apt-get.")] = False,
    pci: Annotated[bool, typer.Option("--pci", help="One virtual machine with PCI functions and an IOMMU.")] = False,
    as_json: AsJson = False,
) -> None:
    """Boot container hosts with a systemd, journald and sshd of their own, a stand-in engine running on each."""
    from deployments import lab as commands
    from deployments import lab_vm

    virtual = lab_vm.up(console(), install=install, as_json=as_json) if pci else None
    run(virtual or commands.up(console(), count, install=install, as_json=as_json))


@lab.command()
def down(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="All of them if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """End container hosts, leaving nothing of them."""
    from deployments import lab as commands

    raise typer.Exit(commands.down(console(), names or (), as_json=as_json))


@lab.command()
def status(as_json: AsJson = False) -> None:
    """List container hosts and how they are reached."""
    from deployments import lab as commands

    raise typer.Exit(commands.status(console(), as_json=as_json))


@lab.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def ssh(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A container host, as `interlock lab status` lists it.")],
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGV]...", help="What to run; a shell if left out.")
    ] = None,
) -> None:
    """Log in to a container host as interlock does."""
    from deployments import lab as commands

    raise typer.Exit(commands.ssh(name, argv or ()))

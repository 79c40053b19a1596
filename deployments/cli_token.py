"""`interlock token`: who may use the HTTP API, and for what."""

from datetime import timedelta
from typing import Annotated

import typer

from deployments.command import AsJson, console, run

token = typer.Typer(no_args_is_help=True, help="Tokens of the HTTP API.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Who uses it; events name it as their actor.")]


@token.command()
def make(
    name: Name,
    scope: Annotated[list[str], typer.Option("--scope", help="read, rollout or rollback; may be given again.")],
    expires: Annotated[str, typer.Option("--expires", help="For how long it is good, as in 90d or 12h.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a token, and show it this once: what is kept is its hash."""
    from deployments import tokens as commands

    lifetime = timedelta(seconds=commands.lifetime_s(expires)) if expires else None
    run(commands.make(console(), name, scope, lifetime, as_json=as_json))


@token.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List every token, the revoked ones too, with when it was last used."""
    from deployments import tokens as commands

    run(commands.list_all(console(), as_json=as_json))


@token.command()
def revoke(name: Name, as_json: AsJson = False) -> None:
    """Revoke a token; what it asks for from now on is refused."""
    from deployments import tokens as commands

    run(commands.revoke(console(), name, as_json=as_json))

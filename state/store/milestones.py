"""Which rollouts may be unfinished, told from the few events that decide it: those that an index of their own holds."""

from collections.abc import Callable, Iterable

STREAMS = "rollout-"
"""How the streams of rollouts begin."""

_DECIDING = ("lease-released", "rollout-concluded", "rollout-resumed")
_OF_A_LEASE = '{"action":"lease:'
"""How the data of a lease's intent begin, as canonical JSON: `action` comes first."""

_TYPES = ", ".join(f"'{name}'" for name in _DECIDING)
MILESTONE = f"(type IN ({_TYPES}) OR substr(data, 1, {len(_OF_A_LEASE)}) = '{_OF_A_LEASE}')"
"""The condition of the index. SQLite takes a partial index only where a statement has the same words."""


def unfinished(between: str, insist: Callable[[str], str]) -> str:
    """`may_be_unfinished` in SQL: the streams, oldest first.

    `between` says in the dialect's way which streams are looked at; `insist` says to take an index of that name, where
    a planner does not do so by itself.
    """
    return f"""
        WITH begun AS MATERIALIZED (
            SELECT stream, position, (
                SELECT type FROM events AS deciding {insist("ix_events_milestones")}
                WHERE deciding.stream = first.stream AND {MILESTONE} AND type IN ({_TYPES})
                ORDER BY version DESC LIMIT 1
            ) AS newest
            FROM events AS first {insist("ix_events_first_stream")} WHERE version = 1 AND {between}
        )
        SELECT stream FROM begun
        WHERE newest IS NULL OR newest = 'rollout-resumed' OR newest = 'rollout-concluded' AND EXISTS (
            SELECT 1 FROM events AS asked {insist("ix_events_milestones")}
            WHERE asked.stream = begun.stream AND {MILESTONE} AND type NOT IN ({_TYPES})
        )
        ORDER BY position
    """


def may_be_unfinished(events: Iterable[tuple[str, str]]) -> bool:
    """Whether a rollout's stream may have something left to do, from the (type, canonical data) of its events.

    Its leases were given back, or it was concluded without having asked for one: then it has ended, unless somebody
    went on with it after that. All else may be unfinished; folding the stream tells.
    """
    newest, asked = "", False
    for type_, data in events:
        if type_ in _DECIDING:
            newest = type_
        elif data.startswith(_OF_A_LEASE):
            asked = True
    return newest != "lease-released" and (newest != "rollout-concluded" or asked)

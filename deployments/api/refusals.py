"""What the HTTP API refuses by itself, before anything of interlock is asked."""

from collections.abc import Mapping

from state.errors import InterlockError


class RequestRefused(InterlockError):
    """`status` is the HTTP status, `name` the error's wire name, `headers` go with the answer."""

    exit_code = 3
    name_ = "request-refused"

    def __init__(
        self, status: int, name: str, message: str, *, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.name_, self.headers = status, name, dict(headers or {})

    @property
    def code(self) -> str:
        return self.name_


def unauthenticated() -> RequestRefused:
    """One answer for a missing, wrong, revoked and expired token, so that nobody learns which it was (RFC 6750)."""
    return RequestRefused(
        401,
        "token-invalid",
        "The request carries no valid token",
        hint="send one as a bearer token; `interlock token make` makes it",
        headers={"WWW-Authenticate": 'Bearer realm="interlock"'},
    )


def under_scoped(token: str, scopes: tuple[str, ...]) -> RequestRefused:
    wanted = " or ".join(f"`{scope}`" for scope in scopes)
    return RequestRefused(
        403,
        "scope-missing",
        f"The token `{token}` has no scope {wanted}",
        hint="`interlock token make` makes one that has",
        headers={
            "WWW-Authenticate": f'Bearer realm="interlock", error="insufficient_scope", scope="{" ".join(scopes)}"'
        },
    )


def too_large(limit: int) -> RequestRefused:
    return RequestRefused(413, "body-too-large", f"The body is over {limit} bytes", hint="INTERLOCK_API_BODY_BYTES")


def too_slow(seconds: float) -> RequestRefused:
    return RequestRefused(408, "body-too-slow", f"The body did not come within {seconds:g} s", hint="send it at once")


def too_often(wait_s: int) -> RequestRefused:
    return RequestRefused(
        429,
        "rate-limited",
        f"Too many requests with this token; the next may come in {wait_s} s",
        hint="INTERLOCK_API_RATE and INTERLOCK_API_BURST say how many may",
        headers={"Retry-After": str(wait_s)},
    )


def too_many_streams(limit: int) -> RequestRefused:
    return RequestRefused(
        429,
        "streams-exhausted",
        f"{limit} event streams are open already",
        hint="close one, or raise INTERLOCK_API_STREAMS",
        headers={"Retry-After": "5"},
    )


def key_unfit() -> RequestRefused:
    return RequestRefused(
        422,
        "request-invalid",
        "An Idempotency-Key is 1 to 255 visible ASCII characters",
        hint="a random UUID will do",
    )


def key_reused(key: str) -> RequestRefused:
    return RequestRefused(
        422,
        "key-reused",
        f"The Idempotency-Key `{key}` came with another request before",
        hint="take a new key for each request, and the same one only to send that request again",
    )

"""How the native dialect says that something failed: problem+json (RFC 9457), through one table."""

import msgspec
from msgspec import UNSET, UnsetType

from couriermq.core import errors as core
from couriermq.core.errors import CourierError
from couriermq.web import errors as web
from couriermq.web.call import Header, Reply

PROBLEM_TYPE: Header = (b"content-type", b"application/problem+json")
URN = "urn:courier:problem:"


class Answer(msgspec.Struct, frozen=True):
    """The status of an error, its name as a program compares it, and its title as a person reads it."""

    status: int
    name: str
    title: str


class Problem(msgspec.Struct, kw_only=True, gc=False):
    """What went wrong: `type` names the kind of problem, `detail` is one sentence, `field` the part to change."""

    type: str
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET


ERRORS: dict[type[CourierError], Answer] = {
    core.Invalid: Answer(400, "invalid", "The request is not valid"),
    core.BodyTooLarge: Answer(413, "body-too-large", "The message is too large"),
    core.BatchTooLarge: Answer(400, "batch-too-large", "The batch has too few or too many items"),
    core.InvalidReceipt: Answer(400, "invalid-receipt", "The receipt is not one of this queue"),
    core.DeadLetterCycle: Answer(400, "dead-letter-cycle", "Dead letters would go round in a circle"),
    core.TenantNotFound: Answer(404, "tenant-not-found", "No such tenant"),
    core.QueueNotFound: Answer(404, "queue-not-found", "No such queue"),
    core.ExchangeNotFound: Answer(404, "exchange-not-found", "No such exchange"),
    core.BindingNotFound: Answer(404, "binding-not-found", "No such binding"),
    core.MessageNotFound: Answer(404, "message-not-found", "No such message"),
    core.CredentialNotFound: Answer(404, "credential-not-found", "No such credential"),
    core.ListenerNotFound: Answer(404, "listener-not-found", "No such listener"),
    core.RecordNotFound: Answer(404, "record-not-found", "No such record"),
    core.WorkerNotFound: Answer(404, "worker-not-found", "No such worker"),
    core.CursorNotFound: Answer(404, "cursor-not-found", "No such cursor"),
    core.ShardNotFound: Answer(404, "shard-not-found", "No such shard"),
    core.JobNotFound: Answer(404, "job-not-found", "No such job"),
    core.StageNotFound: Answer(404, "stage-not-found", "No such stage"),
    core.PublicationNotFound: Answer(404, "publication-not-found", "No such publication"),
    core.PurgeNotFound: Answer(404, "purge-not-found", "The queue was never purged"),
    core.ClaimGone: Answer(410, "claim-gone", "The claim is not held"),
    core.AlreadyExists: Answer(409, "already-exists", "The name is taken"),
    core.InUse: Answer(409, "in-use", "Something still refers to it"),
    core.QueuePaused: Answer(409, "queue-paused", "The queue is paused"),
    core.Fenced: Answer(409, "fenced", "The job was opened again"),
    core.LeaseLost: Answer(409, "lease-lost", "The lease has ended"),
    core.Unauthenticated: Answer(401, "unauthenticated", "A valid credential is required"),
    core.Forbidden: Answer(403, "forbidden", "The credential does not allow this"),
    core.QuotaExceeded: Answer(403, "quota-exceeded", "The tenant has as many as its quota allows"),
    core.StorageExceeded: Answer(429, "storage-exceeded", "The tenant's messages use up its quota"),
    core.TooManyRequests: Answer(429, "too-many-requests", "Too many requests"),
    core.OffsetGone: Answer(410, "offset-gone", "The journal no longer holds that offset"),
    core.Unavailable: Answer(503, "unavailable", "The store cannot do this now"),
    web.NoRoute: Answer(404, "no-route", "There is nothing at this address"),
    web.MethodNotAllowed: Answer(405, "method-not-allowed", "The method is not possible here"),
    web.MalformedRequest: Answer(400, "malformed-request", "The request cannot be read"),
    web.RequestTooLarge: Answer(413, "request-too-large", "The request is too large"),
    web.RequestTimeout: Answer(408, "request-timeout", "The request took too long"),
    web.NotAcceptable: Answer(406, "not-acceptable", "The answer cannot take that form"),
    web.UnsupportedMediaType: Answer(415, "unsupported-media-type", "The request body has the wrong type"),
}

CRASH = Problem(
    type=URN + "internal",
    title="Courier failed",
    status=500,
    detail="an error of our own; the server's log has the details",
)

_encode = msgspec.json.Encoder().encode


def answer_for(kind: type[CourierError]) -> Answer | None:
    """The answer to an error class: its own, else that of the nearest class it descends from."""
    return next((ERRORS[ancestor] for ancestor in kind.__mro__ if ancestor in ERRORS), None)


def problem_of(error: CourierError) -> Problem:
    answer = answer_for(type(error))
    if answer is None:
        return CRASH
    return Problem(
        type=URN + answer.name,
        title=answer.title,
        status=answer.status,
        detail=str(error),
        field=getattr(error, "field", None) or UNSET,
    )


def failure(error: CourierError, *, sentence: str | None = None) -> Reply:
    """The answer to an error, with its own sentence or another one."""
    problem = problem_of(error)
    if sentence is not None:
        problem.detail = sentence
    headers: tuple[Header, ...] = (PROBLEM_TYPE,)
    if isinstance(error, core.TooManyRequests | core.StorageExceeded | core.Unavailable):
        headers += ((b"retry-after", b"%d" % max(1, -(-error.retry_after_ms // 1_000))),)
    return Reply(problem.status, _encode(problem), headers)


def crash() -> Reply:
    return Reply(CRASH.status, _encode(CRASH), (PROBLEM_TYPE,))

"""Everything that can go wrong, in our own words.

CourierError
├── Invalid              the request itself is wrong; the caller must change it
│   ├── BodyTooLarge
│   ├── BatchTooLarge
│   ├── InvalidReceipt   never issued by this store for this queue
│   └── DeadLetterCycle
├── NotFound
│   ├── TenantNotFound · QueueNotFound · ExchangeNotFound · BindingNotFound
│   ├── MessageNotFound · CredentialNotFound · ListenerNotFound · RecordNotFound · CursorNotFound · ShardNotFound
│   ├── JobNotFound · StageNotFound · PublicationNotFound · PurgeNotFound · WorkerNotFound
│   └── ClaimGone        the claim is over, or was never made
├── Conflict
│   ├── AlreadyExists    the name is taken
│   ├── InUse            something else still refers to it
│   ├── QueuePaused
│   ├── Fenced           the job was opened again elsewhere
│   └── LeaseLost        the lease ended, or the message was settled
├── Unauthenticated      no credential, or one that we do not know
│   └── CredentialEnded  a credential that we know, but that is disabled or has expired
├── Forbidden            a good credential without the scope
├── QuotaExceeded        the tenant has as many of something as its quota allows
│   └── StorageExceeded  its messages use up the quota; acks make room
├── TooManyRequests      over the limit of the credential or its tenant; `retry_after_ms` says when
│   ├── TooManyReceivers as many of the tenant's receivers wait as its quota allows
│   └── Throttled        after too many wrong credentials; this one was not looked at
├── OffsetGone           the journal no longer holds that offset
└── Unavailable          the store cannot take writes now; `retry_after_ms` says when to try again

A dialect maps every leaf to its own answer; `tests/architecture` fails when one is forgotten.
"""


class CourierError(Exception):
    """The root of the tree; its text is one sentence that tells the caller what to change."""


class Invalid(CourierError):
    """`field` names the part of the request that is wrong, in our words, where there is one."""

    def __init__(self, sentence: str, *, field: str | None = None) -> None:
        super().__init__(sentence)
        self.field = field


class BodyTooLarge(Invalid):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"the message is {size} bytes; at most {limit} are allowed", field="body")
        self.size = size
        self.limit = limit


class BatchTooLarge(Invalid):
    def __init__(self, count: int, limit: int) -> None:
        super().__init__(f"the batch has {count} items; send between 1 and {limit}")
        self.count = count
        self.limit = limit


class InvalidReceipt(Invalid):
    def __init__(self, receipt: str) -> None:
        super().__init__("the receipt is not one that this queue handed out", field="receipt")
        self.receipt = receipt


class DeadLetterCycle(Invalid):
    def __init__(self, queue: str) -> None:
        super().__init__(
            f"dead letters of {queue!r} would come back to it; choose another queue", field="dead_letter_queue"
        )
        self.queue = queue


class NotFound(CourierError):
    """`name` is what was asked for."""

    noun = "thing"

    def __init__(self, name: str) -> None:
        super().__init__(f"no {self.noun} named {name!r}")
        self.name = name


class TenantNotFound(NotFound):
    noun = "tenant"


class QueueNotFound(NotFound):
    noun = "queue"


class ExchangeNotFound(NotFound):
    noun = "exchange"


class BindingNotFound(NotFound):
    noun = "binding"


class MessageNotFound(NotFound):
    noun = "message"


class CredentialNotFound(NotFound):
    noun = "credential"


class ListenerNotFound(NotFound):
    noun = "listener"


class RecordNotFound(NotFound):
    noun = "record"


class WorkerNotFound(NotFound):
    noun = "worker"


class CursorNotFound(NotFound):
    noun = "cursor"


class ShardNotFound(NotFound):
    noun = "shard"


class JobNotFound(NotFound):
    noun = "job"


class StageNotFound(NotFound):
    """The stage is not there as a whole: its messages must be staged again."""

    noun = "stage"

    def __init__(self, name: str, parts: tuple[int, int] | None = None) -> None:
        """`parts` is how many parts a stage has that lacks some, and how many its publication says."""
        super().__init__(name)
        if parts is not None:
            has, wanted = parts
            noun = "part" if has == 1 else "parts"
            self.args = (f"stage {name!r} has {has} {noun} and not {wanted}: drop it, and stage its messages again",)


class PublicationNotFound(NotFound):
    noun = "publication"


class PurgeNotFound(NotFound):
    """The queue was never purged."""

    noun = "purge of a queue"


class ClaimGone(NotFound):
    def __init__(self, job: str, number: int) -> None:
        CourierError.__init__(
            self, f"claim {number} of job {job!r} is not held: it was acked, it was freed, or it was never made"
        )
        self.name = str(number)
        self.job = job
        self.number = number


class Conflict(CourierError):
    """The request is well formed, but the present state forbids it."""


class AlreadyExists(Conflict):
    """`noun` is what has the name already: queues and exchanges of a tenant share their names."""

    def __init__(self, noun: str, name: str, *, by: str = "named") -> None:
        article = "an" if noun[0] in "aeiou" else "a"
        super().__init__(f"{article} {noun} {by} {name!r} exists already; choose another name")
        self.noun = noun
        self.name = name


class InUse(Conflict):
    def __init__(self, name: str, user: str) -> None:
        super().__init__(f"{name!r} is still used by {user}; remove that first")
        self.name = name
        self.user = user


class QueuePaused(Conflict):
    def __init__(self, queue: str) -> None:
        super().__init__(f"queue {queue!r} is paused; resume it to receive")
        self.queue = queue


class Fenced(Conflict):
    def __init__(self, job: str, epoch: int) -> None:
        super().__init__(f"job {job!r} was opened again since, or freed: epoch {epoch} is over")
        self.job = job
        self.epoch = epoch


class LeaseLost(Conflict):
    def __init__(self, receipt: str) -> None:
        super().__init__("the lease has ended or the message was settled; receive it again")
        self.receipt = receipt


class Unauthenticated(CourierError):
    def __init__(self, sentence: str = "a valid credential is required") -> None:
        super().__init__(sentence)


class CredentialEnded(Unauthenticated):
    """The caller has proved who it is, but may not get in any more; such a call is no guess."""


class Forbidden(CourierError):
    def __init__(self, action: str, target: str) -> None:
        super().__init__(f"this credential may not {action} {target}")
        self.action = action
        self.target = target


def _noun(quota: str) -> str:
    """`max_message_bytes` limits message bytes."""
    return quota.removeprefix("max_").replace("_", " ")


class QuotaExceeded(CourierError):
    """`quota` is the name of the limit, as in `core.quotas`."""

    def __init__(self, quota: str, limit: int) -> None:
        super().__init__(
            f"the tenant's quota allows {limit} {_noun(quota)}; delete some, or ask the operator for a higher quota"
        )
        self.quota = quota
        self.limit = limit


class StorageExceeded(QuotaExceeded):
    def __init__(self, quota: str, limit: int) -> None:
        CourierError.__init__(
            self,
            f"the tenant's quota allows {limit} {_noun(quota)} in its queues; receive and ack some, or ask"
            " the operator for a higher quota",
        )
        self.quota = quota
        self.limit = limit
        self.retry_after_ms = 1_000


class TooManyRequests(CourierError):
    def __init__(self, retry_after_ms: int) -> None:
        super().__init__(f"too many requests; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


class TooManyReceivers(TooManyRequests):
    def __init__(self, limit: int) -> None:
        CourierError.__init__(
            self, f"{limit} receivers of the tenant wait already, as many as its quota allows; wait for fewer at a time"
        )
        self.retry_after_ms = 1_000


class Throttled(TooManyRequests):
    def __init__(self, retry_after_ms: int) -> None:
        CourierError.__init__(self, f"too many wrong credentials from this address; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms


class OffsetGone(CourierError):
    def __init__(self, offset: int, oldest: int) -> None:
        super().__init__(f"offset {offset} is no longer kept; the oldest is {oldest}")
        self.hidden_sentence = "the position is no longer kept; begin at the journal's `oldest`"
        """For a tenant, who must not see the store's own offsets."""
        self.offset = offset
        self.oldest = oldest

    @classmethod
    def of_earlier_incarnation(cls, offset: int, first: int) -> "OffsetGone":
        """For an offset behind the point that the store was restored to."""
        error = cls(offset, first)
        error.args = (
            f"offset {offset} is of an earlier incarnation: the store was restored from a copy since, and the event was"
            f" lost; the present incarnation begins at {first}",
        )
        return error


class Unavailable(CourierError):
    def __init__(self, sentence: str, *, retry_after_ms: int = 1_000) -> None:
        super().__init__(sentence)
        self.retry_after_ms = retry_after_ms

"""Tokens prove themselves: what we wrote we read back, and nothing else passes."""

import base64
import re
import string
from concurrent.futures import ThreadPoolExecutor

from hypothesis import assume, given
from hypothesis import strategies as st

from couriermq.core.receipts import Sealer

KEY = b"k" * 32
URL_SAFE = string.ascii_letters + string.digits + "-_"

keys = st.binary(min_size=16, max_size=64)
queue_keys = st.integers(0, 2**32 - 1)
seqs = st.integers(0, 2**63 - 1)
lease_numbers = st.integers(0, 2**32 - 1)
positions = st.integers(0, 10_000)


def other_letter(token: str, position: int, letter: str) -> str:
    at = position % len(token)
    assume(token[at] != letter)
    return token[:at] + letter + token[at + 1 :]


def flip_bit(token: str, position: int) -> str:
    raw = bytearray(base64.urlsafe_b64decode(token))
    bit = position % (len(raw) * 8)
    raw[bit // 8] ^= 1 << bit % 8
    return base64.urlsafe_b64encode(raw).decode()


@given(key=keys, queue_key=queue_keys, seq=seqs, lease_no=lease_numbers)
def test_a_receipt_leads_back_to_its_lease(key: bytes, queue_key: int, seq: int, lease_no: int) -> None:
    sealer = Sealer(key)
    assert sealer.read_receipt(sealer.receipt(queue_key, seq, lease_no)) == (queue_key, seq, lease_no)


@given(queue_key=queue_keys, seq=seqs)
def test_a_ref_leads_back_to_its_message(queue_key: int, seq: int) -> None:
    sealer = Sealer(KEY)
    assert sealer.read_ref(sealer.ref(queue_key, seq)) == (queue_key, seq)


@given(seq=seqs)
def test_a_minted_id_leads_back_to_its_seq(seq: int) -> None:
    sealer = Sealer(KEY)
    minted = sealer.message_id(seq)
    assert sealer.seq_of(minted) == seq
    assert re.fullmatch("[0-9a-f]{32}", minted)


@given(seq=seqs)
def test_the_same_key_writes_the_same_tokens_after_a_restart(seq: int) -> None:
    before, after = Sealer(KEY), Sealer(KEY)
    assert before.receipt(1, seq, 1) == after.receipt(1, seq, 1)
    assert before.message_id(seq) == after.message_id(seq)


@given(queue_key=queue_keys, seq=seqs, lease_no=lease_numbers)
def test_tokens_need_no_escaping_in_a_url(queue_key: int, seq: int, lease_no: int) -> None:
    sealer = Sealer(KEY)
    assert set(sealer.receipt(queue_key, seq, lease_no) + sealer.ref(queue_key, seq)) <= set(URL_SAFE)


@given(first=keys, second=keys, seq=seqs)
def test_another_stores_tokens_mean_nothing(first: bytes, second: bytes, seq: int) -> None:
    assume(first.ljust(64, b"\0") != second.ljust(64, b"\0"))
    ours, theirs = Sealer(first), Sealer(second)
    assert ours.read_receipt(theirs.receipt(1, seq, 1)) is None
    assert ours.read_ref(theirs.ref(1, seq)) is None
    assert ours.seq_of(theirs.message_id(seq)) is None


@given(queue_key=queue_keys, seq=seqs, lease_no=lease_numbers, position=positions)
def test_a_receipt_with_one_bit_flipped_is_refused(queue_key: int, seq: int, lease_no: int, position: int) -> None:
    sealer = Sealer(KEY)
    assert sealer.read_receipt(flip_bit(sealer.receipt(queue_key, seq, lease_no), position)) is None
    assert sealer.read_ref(flip_bit(sealer.ref(queue_key, seq), position)) is None


@given(seq=seqs, position=positions, letter=st.sampled_from(URL_SAFE + "+/=. \n"))
def test_a_receipt_has_exactly_one_spelling(seq: int, position: int, letter: str) -> None:
    sealer = Sealer(KEY)
    assert sealer.read_receipt(other_letter(sealer.receipt(1, seq, 1), position, letter)) is None
    assert sealer.read_ref(other_letter(sealer.ref(1, seq), position, letter)) is None


@given(seq=seqs)
def test_a_receipt_in_the_other_base64_alphabet_is_refused(seq: int) -> None:
    sealer = Sealer(KEY)
    token = sealer.receipt(1, seq, 1)
    assume("-" in token or "_" in token)
    assert sealer.read_receipt(token.replace("-", "+").replace("_", "/")) is None


@given(seq=seqs, position=positions, letter=st.sampled_from("0123456789abcdef"))
def test_an_altered_minted_id_is_somebody_elses(seq: int, position: int, letter: str) -> None:
    sealer = Sealer(KEY)
    assert sealer.seq_of(other_letter(sealer.message_id(seq), position, letter)) is None


@given(seq=seqs)
def test_a_minted_id_in_capitals_is_another_id(seq: int) -> None:
    sealer = Sealer(KEY)
    minted = sealer.message_id(seq)
    assume(minted != minted.upper())
    assert sealer.seq_of(minted.upper()) is None


@given(seq=seqs, tail=st.sampled_from(["=", "==", "A", "AAAA", " ", "\n"]))
def test_nothing_may_be_added_to_a_receipt_or_cut_from_it(seq: int, tail: str) -> None:
    sealer = Sealer(KEY)
    token = sealer.receipt(1, seq, 1)
    assert sealer.read_receipt(token + tail) is None
    assert sealer.read_receipt(token[:-1]) is None
    assert sealer.read_receipt(token[1:]) is None


@given(token=st.text(max_size=80))
def test_made_up_tokens_are_refused_and_never_an_accident(token: str) -> None:
    sealer = Sealer(KEY)
    assert sealer.read_receipt(token) is None
    assert sealer.read_ref(token) is None
    assert sealer.seq_of(token) is None


def test_a_ref_is_not_a_receipt() -> None:
    sealer = Sealer(KEY)
    assert sealer.read_receipt(sealer.ref(1, 2)) is None
    assert sealer.read_ref(sealer.receipt(1, 2, 3)) is None


@given(steps=st.lists(st.sampled_from([1, 1, 1, 2, -1, 63, 64, 65, 1_000]), max_size=200))
def test_an_id_is_the_same_whatever_was_asked_for_before(steps: list[int]) -> None:
    sealer, another, seq = Sealer(KEY), Sealer(KEY), 2**20
    for step in [*steps, *[1] * 70]:
        seq += step
        assert sealer.message_id(seq) == another.message_ids([seq])[0]


def test_the_last_seqs_have_ids() -> None:
    sealer = Sealer(KEY)
    assert [sealer.seq_of(sealer.message_id(seq)) for seq in range(2**64 - 3, 2**64)] == list(range(2**64 - 3, 2**64))


def test_threads_may_share_a_sealer() -> None:
    sealer = Sealer(KEY)
    expected = sealer.message_ids(range(2_000))

    def mint(_: int) -> bool:
        return all(sealer.message_ids(range(2_000)) == expected for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(mint, range(4)))


@given(leases=st.lists(st.tuples(queue_keys, seqs, lease_numbers), min_size=1, max_size=40))
def test_receipts_that_are_written_and_read_together_are_those_of_each(leases: list[tuple[int, int, int]]) -> None:
    sealer = Sealer(KEY)
    written = sealer.receipts(leases)
    assert written == [sealer.receipt(*lease) for lease in leases]
    assert sealer.read_receipts(written) == leases


@given(good=st.lists(seqs, min_size=1, max_size=5), bad=st.text(max_size=80), place=positions)
def test_a_bad_receipt_among_good_ones_is_refused_alone(good: list[int], bad: str, place: int) -> None:
    sealer = Sealer(KEY)
    tokens: list[str] = [sealer.receipt(1, seq, 1) for seq in good]
    read: list[tuple[int, int, int] | None] = [(1, seq, 1) for seq in good]
    at = place % (len(good) + 1)
    assert sealer.read_receipts([*tokens[:at], bad, *tokens[at:]]) == [*read[:at], None, *read[at:]]


@given(first=seqs, second=seqs, cut=st.integers(1, 39))
def test_receipts_that_are_divided_otherwise_are_none(first: int, second: int, cut: int) -> None:
    sealer = Sealer(KEY)
    one, other = sealer.receipts([(1, first, 1), (1, second, 1)])
    assume(one[:cut] != other[:cut] and one[cut:] != other[cut:])
    assert sealer.read_receipts([one[:cut], one[cut:] + other]) == [None, None]
    assert sealer.read_receipts([one[:cut] + other[cut:], other[:cut] + one[cut:]]) == [None, None]

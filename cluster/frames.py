"""What the Raft core of one node says to another's: every message, typed, with what its fields mean.

A frame travels as a dict with "type"; `decode` checks every field, so that a handler never sees a malformed one.
Names and meanings follow figure 2 of the Raft paper (Ongaro and Ousterhout, 2014) and sections 3.10, 4.2.3, 6.4 and
9.6 of Ongaro's thesis. Every answer tells the answerer's own term, so that a sender that fell behind learns of it.
"""

from typing import TypeAlias, cast

import msgspec

from cluster.ports import Message


class Frame(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    """term: the sender's current term (of PreVote: the term that it would stand for)."""

    term: int


class AppendEntries(Frame, frozen=True, tag="append_entries"):
    """From the leader: entries that follow prev_index, or none as a heartbeat.

    round: rises with every frame that this leader sends in this term, whoever gets it. entries: (term, command).
    lease_now_ms, wall_now_ms: the leader's clocks. digest: (applied index, chain digest there). quiet: only news of the
    commit index, an answer is wanted only if it does not fit.
    """

    round: int
    prev_index: int
    prev_term: int
    entries: list[tuple[int, bytes]]
    commit_index: int
    lease_now_ms: int
    wall_now_ms: int
    digest: tuple[int, bytes] | None
    quiet: bool


class Appended(Frame, frozen=True, tag="appended"):
    """Answer to AppendEntries.

    round: of the frame that is answered. success: the log agrees with the leader's up to match_index, durably. If not,
    hint is the next index worth trying. last_index: the end of the answerer's log. wall_ms: its clock.
    """

    round: int
    incarnation: int
    success: bool
    match_index: int
    hint: int
    last_index: int
    wall_ms: int


class PreVote(Frame, frozen=True, tag="pre_vote"):
    """Would you vote for me in this term? Changes no state anywhere. nonce: of this attempt."""

    nonce: int
    last_index: int
    last_term: int
    incarnation: int


class PreVoteAnswer(Frame, frozen=True, tag="pre_vote_answer"):
    nonce: int
    granted: bool
    incarnation: int


class RequestVote(Frame, frozen=True, tag="request_vote"):
    """transfer: nonce of the Transfer that asks for this election, else 0; it passes the voters' stickiness."""

    last_index: int
    last_term: int
    incarnation: int
    transfer: int


class Vote(Frame, frozen=True, tag="vote"):
    granted: bool
    incarnation: int
    wall_ms: int


class Transfer(Frame, frozen=True, tag="transfer"):
    """From the leader: stand for election at once; your log reaches last_index, the end of mine."""

    nonce: int
    last_index: int


class Propose(Frame, frozen=True, tag="propose"):
    """Operations for the leader of exactly this term. operations: (sequence, urgent, bytes), sequences rising.

    session: of the proposing process. floor: every sequence of it below this is settled.
    """

    session: int
    floor: int
    operations: list[tuple[int, bool, bytes]]


class Refused(Frame, frozen=True, tag="refused"):
    """These sequences were definitely not appended under proposed_term, and never will be."""

    proposed_term: int
    session: int
    sequences: list[int]
    reason: str


class ReadIndex(Frame, frozen=True, tag="read_index"):
    """Which index is at least as new as now? number: of the asker, to tell its questions apart."""

    number: int


class ReadAnswer(Frame, frozen=True, tag="read_answer"):
    """index: state applied up to here is as new as the question; 0: ask the leader, that is not me."""

    number: int
    index: int


class Expelled(Frame, frozen=True, tag="expelled"):
    """From the leader: you reported less than you acknowledged in this term; your disk lost what you promised."""

    reason: str


class Diverged(Frame, frozen=True, tag="diverged"):
    """From a follower: after the entry at index my chain digest is this, not the leader's."""

    index: int
    chain: bytes


class Install(Frame, frozen=True, tag="install"):
    """From the leader: you need more of the log than there is; here is an image instead.

    Answered by InstallProgress, or by Appended when the receiver has as much already.

    transfer: number of this transfer. round: as of AppendEntries. index, entry_term, command: the entry that the image
    ends with. meta: what the image is (`image_records.encode_meta`). commit_index: the leader's.
    """

    transfer: int
    round: int
    index: int
    entry_term: int
    command: bytes
    meta: bytes
    commit_index: int


class InstallChunk(Frame, frozen=True, tag="install_chunk"):
    """Part of the image. number: counts from 0. records: an array of (name, stored record). last: no more follow."""

    transfer: int
    number: int
    records: bytes
    last: bool


class InstallProgress(Frame, frozen=True, tag="install_progress"):
    """received: so many chunks are put away; -1: the transfer is of no use. loaded: so many records are objects."""

    transfer: int
    received: int
    loaded: int


class Content(Frame, frozen=True, tag="content"):
    """To the leader: the content digest of my image behind the mark at index."""

    index: int
    digest: bytes
    incarnation: int


class Differs(Frame, frozen=True, tag="differs"):
    """From the leader: your digest behind the mark at index is not the majority's; right: that one, empty for none."""

    index: int
    right: bytes


AnyFrame: TypeAlias = (
    AppendEntries
    | Appended
    | PreVote
    | PreVoteAnswer
    | RequestVote
    | Vote
    | Transfer
    | Propose
    | Refused
    | ReadIndex
    | ReadAnswer
    | Expelled
    | Diverged
    | Install
    | InstallChunk
    | InstallProgress
    | Content
    | Differs
)

# These may leave before the journal is synced: they promise nothing about what is durable here.
UNBOUND = frozenset({"append_entries", "pre_vote", "pre_vote_answer"})


class MalformedFrame(Exception):
    """A message that is none of ours. It is dropped; its sender is of another version, or broken."""


def encode(frame: AnyFrame) -> Message:
    """The dict that travels."""
    return cast(Message, msgspec.to_builtins(frame, builtin_types=(bytes,)))


def decode(message: Message) -> AnyFrame:
    """The typed frame. Raises MalformedFrame."""
    try:
        return cast(AnyFrame, msgspec.convert(message, AnyFrame, builtin_types=(bytes,)))
    except msgspec.ValidationError as error:
        raise MalformedFrame(str(error)) from None

"""The beginning of a node's life: its image and its log are brought together, and the machine is as it was.

Whatever the last life was doing when it ended, an install is either finished or forgotten: the journal's mark says
which image was to be installed, and the images' directory whether it became the current one. After that the log must
hold the very entry that the image ends with. If it does not, something was lost or pieced together, and the node does
not start: with less than it promised it must neither vote nor acknowledge.
"""

from dataclasses import dataclass, field
from functools import partial

from cluster.failpoints import Failpoints
from cluster.image import Image
from cluster.image_limits import ImageLimits
from cluster.image_loading import load_image
from cluster.image_records import ImageError
from cluster.journal_records import START_EMPTY, InstallMark, JournalIdentity
from cluster.ports import ImageFolder, JournalPort, Worker
from statemachine.machine import Machine


@dataclass(frozen=True)
class ImageGround:
    """What images stand on. owner: the journal that they belong to."""

    folder: ImageFolder
    worker: Worker
    owner: JournalIdentity
    limits: ImageLimits = field(default_factory=ImageLimits)
    points: Failpoints = field(default_factory=Failpoints)


async def recover(journal: JournalPort, ground: ImageGround, machine: Machine) -> Image:
    """Restore the machine, which must be new, from the image. Returns the image, which goes on from there.

    Raises ImageError, which says what is wrong and what to do.
    """
    try:
        return await _recover(journal, ground, machine)
    except _ApartError as error:
        raise ImageError(f"{error}. {START_EMPTY}") from error
    except ImageError as error:
        advice = START_EMPTY if journal.first_index > 1 else _MAKE_ANEW
        raise ImageError(f"{error}. {advice}") from error


class _ApartError(ImageError):
    """Image and log are of different pasts: one of them forgot something, and nobody can say that it is the image."""


_MAKE_ANEW = (
    "The log still has everything: move the directory `image` in the data directory away and start the node again, "
    "it makes the image anew."
)


async def _recover(journal: JournalPort, ground: ImageGround, machine: Machine) -> Image:
    folder, worker = ground.folder, ground.worker
    name = folder.current()
    if name is None:
        name = next_name(folder)
        file = await worker.run(lambda: folder.open(name))
        await worker.run(lambda: folder.switch(name))
    else:
        file = await worker.run(lambda: folder.open(name))
    try:
        image = Image(name, file, ground.owner, ground.points)
        _end_install(journal, image)
        _check_that_they_meet(journal, image)
        if image.meta is not None:
            meta, store = await load_image(image, worker)
            machine.restore(meta.values, store)
    except BaseException:
        worker.do(file.close)
        raise
    for other in folder.names():
        if other != name:
            await worker.run(partial(folder.remove, other))
    machine.freeze()  # changes are noted from here on
    return image


def next_name(folder: ImageFolder) -> str:
    """A name that no image has or had while this directory is what it is."""
    numbers = [int(name.partition("-")[2]) for name in (*folder.names(), folder.current() or "image-0")]
    return f"image-{max(numbers, default=0) + 1}"


def _end_install(journal: JournalPort, image: Image) -> None:
    """Finish an install that had switched to its image, or forget one that had not."""
    mark = journal.mark
    if mark is None:
        return
    if image.name == mark.folder:
        if image.meta is None or (image.meta.index, image.meta.term, image.meta.content) != (
            mark.index,
            mark.term,
            mark.content,
        ):
            raise ImageError(f"{image.name} is not the image that was installed there, of entry {mark.index}")
        begin_log(journal, mark)
    journal.set_mark(None)
    journal.sync()


def begin_log(journal: JournalPort, mark: InstallMark) -> None:
    """The log follows the installed image: it keeps what it has if that agrees, else it begins with the image's entry.

    Raft paper, section 7: a log that holds the image's last entry, by index and term, agrees with it up to there.
    """
    if not holds(journal, mark.index, mark.term):
        journal.clear()
        journal.add(mark.command, mark.index, mark.term)


def holds(journal: JournalPort, index: int, term: int) -> bool:
    """Whether the log has the entry of this index and term."""
    return journal.first_index <= index <= journal.last_index and journal.term_at(index) == term


def _check_that_they_meet(journal: JournalPort, image: Image) -> None:
    if image.meta is None:
        if journal.first_index > 1:
            raise _ApartError(
                f"the log begins with entry {journal.first_index}, and there is no image of what was before"
            )
    elif not holds(journal, image.meta.index, image.meta.term):
        raise _ApartError(
            f"the image ends with entry {image.meta.index} of term {image.meta.term}, which is not in the log of "
            f"entries {journal.first_index} to {journal.last_index}: they do not belong together"
        )

"""A store made of an image, in steps between which the loop runs, with every record and the whole digest checked.

The image is read in the image thread, and the records become objects on the loop, a few at a time: another thread
would hold the interpreter for as long, and longer at a stretch.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from cluster.image import Image
from cluster.image_records import ImageError, ImageMeta, data_of, hash_of
from cluster.ports import Worker
from statemachine.image_state import ImageStateError, Loader, check_values, drop
from statemachine.store import Store

READ_BYTES = 512 << 10
STEP_RECORDS = 256  # about 2 ms


async def load_image(
    image: Image, worker: Worker, progress: Callable[[int], None] = lambda _: None
) -> tuple[ImageMeta, Store]:
    """The store that the image holds. progress: called now and then with the number of records that are done.

    Raises ImageError for an image that is damaged or of another release.
    """
    meta, snapshot = await worker.run(image.snapshot)
    loader = Loader()
    try:
        check_values(meta.values)
        name: bytes | None = None
        while records := await worker.run(partial(snapshot.after, name, READ_BYTES)):
            for place, (name, stored) in enumerate(records, start=1):
                if loader.add(name, data_of(stored)) != hash_of(stored):
                    raise ImageError(f"record {name[:80]!r} is damaged: its hash does not match")
                if place % STEP_RECORDS == 0:
                    await asyncio.sleep(0)
            progress(loader.content.records)
    except ImageStateError as error:
        raise ImageError(str(error)) from error
    finally:
        worker.do(snapshot.close)
    if (loader.content.digest, loader.content.records) != (meta.content, meta.records):
        raise ImageError(
            f"it holds {loader.content.records} records with the digest {loader.content.digest.hex()[:16]}, but "
            f"{meta.records} with {meta.content.hex()[:16]} were written"
        )
    return meta, loader.store


async def drop_store(store: Store) -> None:
    """Free a store that nobody uses any more, in steps between which the loop runs."""
    for _ in drop(store):
        await asyncio.sleep(0)

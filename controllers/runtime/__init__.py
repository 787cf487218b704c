"""What every controller stands on. Reading order: kinds, transport, client, informer, workqueue, controller,
events.

Invariants shared by all of it:

* Everything runs on one event loop; no locks, no threads. Work on the loop is cut into pieces of a few milliseconds.
* Objects are plain dicts in JSON form. What an informer hands out is shared by every reader and must not be changed;
  copy the path that you change (`{**obj, "status": ...}`).
* Time is the event loop's: `apiserver.runtime.clock.now`, `asyncio.sleep`, `loop.call_later`.
* A component reconciles towards the state that it sees, never towards an event: `reconcile(key) -> timedelta | None`.
"""

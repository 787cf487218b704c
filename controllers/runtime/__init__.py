"""Foundations of every controller.

Reading order: kinds, transport, client, informer, workqueue, controller, events.

Invariants:

* Everything runs on one event loop, without locks or threads. Work on the loop is cut into pieces of a few ms.
* Objects are plain dicts in JSON form. All readers share the objects of an informer and must not change them.
  Copy the path that you change (`{**obj, "status": ...}`).
* Time is the event loop's: `apiserver.runtime.clock.now`, `asyncio.sleep`, `loop.call_later`.
* A component reconciles towards the observed state, never towards an event: `reconcile(key) -> timedelta | None`.
"""

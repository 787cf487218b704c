"""The process: clock, virtual event loop, offloaded work, garbage collector settings, metrics, frames of the pipe."""

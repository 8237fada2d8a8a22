//! Microsoft's own clients against the emulator. The suites are in `tests/`; nothing is here to be
//! used.

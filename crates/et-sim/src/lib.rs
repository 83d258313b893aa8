//! A simulated accelerator: opaque addresses, checked copies, a trace, faults on demand

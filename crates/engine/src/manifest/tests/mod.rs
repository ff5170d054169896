//! Tests of the manifest on disks that crash, fail and fill up.

pub(super) mod support;

mod crashes;
mod faults;
mod leftovers;

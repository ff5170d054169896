//! Background work: what to seal, flush and compact next, and installing what came of it.
//!
//! ```text
//! memtables half full -> seal the largest -> group -> flush job -> edit -> manifest -> install
//!                                                                      -> log released
//! install -> pick per tree -> compaction job -> edit -> manifest -> install -> sweep
//! ```

mod back_off;
mod ballast;
mod damage;

mod admission;
mod back_pressure;
mod compact;
mod copies;
mod cut;
mod deletes;
mod divide;
mod failures;
mod flush;
mod full;
mod groups;
mod install;
mod pace;
mod relieve;
mod scrub;
mod seal;
mod space;
mod state;
mod supply;
mod timer;
mod wait;

pub use admission::Admitted;
pub(crate) use ballast::{Ballast, find_ballast};
pub(crate) use cut::Cut;
pub(crate) use divide::Division;
pub use full::CompactProgress;
pub(crate) use pace::Pace;
pub(crate) use state::Background;
pub(crate) use supply::ceiling_above;

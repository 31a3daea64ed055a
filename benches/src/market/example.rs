//! The example `market` without its command line: the marketplace, its sellers and buyers, and the
//! audit.

#[path = "../../../examples/market/audit.rs"]
mod audit;
#[path = "../../../examples/market/crew.rs"]
mod crew;
#[path = "../../../examples/market/error.rs"]
pub(crate) mod error;
#[path = "../../../examples/market/goods.rs"]
pub(crate) mod goods;
#[path = "../../../examples/market/load.rs"]
pub(crate) mod load;
#[path = "../../../examples/market/report.rs"]
pub(crate) mod report;
#[path = "../../../examples/market/stall.rs"]
pub(crate) mod stall;
#[path = "../../../examples/market/ways.rs"]
pub(crate) mod ways;

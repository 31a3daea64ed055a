//! The machines of a quorum: tables and properties for each (`counting`, `election`, `jumps`,
//! `voting`), and all of them together, explored (`explore`).

mod counting;
mod election;
mod explore;
mod jumps;
mod records;
mod voting;

//! That each way keeps the books, that every outcome occurs, and that the audit finds what it is there for. Nothing here looks at speed.

mod audit;
mod lab;
mod moves;
mod program;
mod runs;
mod words;

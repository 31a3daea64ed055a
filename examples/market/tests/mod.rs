//! Each way keeps the books, each outcome occurs, and the audit finds errors. No test looks at
//! speed.

mod audit;
mod lab;
mod moves;
mod program;
mod runs;
mod words;

//! Each way keeps the books, each outcome occurs, and the audit finds errors. No test looks at
//! speed.

mod books;
mod lab;
mod moves;
mod program;
mod runs;
mod words;

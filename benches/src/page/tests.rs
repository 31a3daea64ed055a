//! The cells of a table.

use crate::chapter::{NONE, number, spread};
use crate::statistics::Quartiles;

#[test]
fn cells() {
    let of = Quartiles::of(vec![1.0, 2.0, 3.0]);
    assert_eq!(spread(of, 2), "2.00 [1.50–2.50]");
    assert_eq!(number(Some(2.345), 1), "2.3");
    assert_eq!(
        (spread(None, 2), number(None, 1)),
        (NONE.to_owned(), NONE.to_owned())
    );
}

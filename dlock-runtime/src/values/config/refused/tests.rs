//! The table of what a server refuses.

use super::*;

#[test]
fn each_setting_of_the_table_is_one() {
    let config = Config::new("memory://");
    for row in REFUSED {
        if let Setting(name) = row.what {
            assert_eq!(config.gives(name), Some(false), "{name}");
        }
    }
}

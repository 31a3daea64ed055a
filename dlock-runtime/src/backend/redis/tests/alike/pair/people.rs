//! Whose claims the sequences are made of, by number.

use super::super::{KEYS, Who};
use crate::backend::redis::tests::lab::{claim, seconds, waiter};
use crate::policy::commands::Claim;
use crate::policy::queue::Place;

/// At another server: whether anybody listens there can't be told here.
pub(super) const ELSEWHERE: &str = "0123456789abcdef;lock:@grant:nobody";

/// `here`: the only address at this server that anybody listens to.
pub(super) fn named((key, number): Who, here: &str) -> Claim {
    let key = KEYS[key];
    let run_id = here.split_once(';').expect("an address").0;
    let deaf = &*format!("{run_id};lock:@grant:nobody"); // nobody listens there
    let text = match number {
        0 => return waiter(key, here, "1|red"),
        1 => return waiter(key, deaf, "1|green"),
        2 => {
            return Claim {
                place: Some(Place::new("", seconds(2))), // shorter than `CLAIM`
                ..claim(key, "1|gold")
            };
        }
        3 => return waiter(key, ELSEWHERE, "1|blue"),
        4 => return claim(key, "2|grey"), // never queues; in the way, it is of another layout
        5 => format!("r|ann|{here}|30000|0|0||host|1|f|0"),
        6 => format!("w|bob|{here}|30000|0|0||host|1|f|0"),
        7 => format!("r|cid|{deaf}|30000|0|0||host|1|f|0"),
        8 => "w|dan||2000|0|0||host|1|f|0".to_owned(),
        9 => format!("r|eve|{ELSEWHERE}|30000|0|0||host|1|f|0"),
        10 => format!("p|ann|{here}|30000|1|3||host|1|f|0"),
        11 => format!("p|bob|{here}|30000|2|3||host|1|f|0"),
        12 => format!("p|cid|{deaf}|30000|1|3||host|1|f|0"),
        13 => "p|dan||2000|1|3||host|1|f|0".to_owned(),
        14 => format!("p|eve|{here}|30000|1|2||host|1|f|0"), // another number
        15 => format!("o|ann|{here}|30000|0|0|one|host|1|f|0"),
        16 => "o|bob||2000|0|0|one|host|1|f|0".to_owned(),
        17 => format!("o|cid|{here}|30000|0|0|two|host|1|f|0"),
        18 => format!("o|dan|{deaf}|30000|0|0|two|host|1|f|0"),
        19 => format!("o|eve|{ELSEWHERE}|30000|0|0|two|host|1|f|0"),
        20 => format!("r|once|{here}|30000|0|0||host|1|f|0"),
        21 => "w|once||30000|0|0||host|1|f|0".to_owned(),
        22 => format!("p|once|{here}|30000|2|3||host|1|f|0"),
        23 => "o|once||30000|0|0|one|host|1|f|0".to_owned(),
        _ => unreachable!("nobody has this number"),
    };
    let queues = number < 20;
    Claim {
        place: queues.then(|| Place::new("", seconds(30))), // which of an entry says nothing
        ..claim(key, &text)
    }
}

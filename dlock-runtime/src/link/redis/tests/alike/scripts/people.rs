//! The claims of the random sequences, by number. Some have additional fields, as a later version
//! may append; they must be kept.

use super::{KEYS, Who};
use crate::link::redis::tests::alike::pair::ELSEWHERE;
use crate::link::redis::tests::lab::{claim, waiter};
use crate::rules::commands::Claim;

/// From this number on, a person's job runs once per period.
pub(super) const RUN_ONCE: usize = 26;

/// `here`: the only address at this server with a listener.
pub(super) fn named((key, number): Who, here: &str) -> Claim {
    let key = KEYS[key];
    let run_id = here.split_once(';').expect("an address").0;
    let unresponsive = &*format!("{run_id};lock:@grant:nobody"); // an address without a listener
    let text = match number {
        0 => return waiter(key, here, "red"),
        1 => return waiter(key, unresponsive, "green"),
        2 => {
            return Claim {
                queues: true,
                ..claim(key, "1|x|gold||2000|0|0||host|1|f|0|new|9") // shorter than `CLAIM`
            };
        }
        3 => return waiter(key, ELSEWHERE, "blue"),
        4 => return claim(key, "2|grey"), // never queues; blocks others with another layout
        5 => format!("1|r|ann|{here}|30000|0|0||host|1|f|0"),
        6 => format!("1|w|bob|{here}|30000|0|0||host|1|f|0|new|9"),
        7 => format!("1|r|cid|{unresponsive}|30000|0|0||host|1|f|0"),
        8 => "1|w|dan||2000|0|0||host|1|f|0".to_owned(),
        9 => format!("1|r|eve|{ELSEWHERE}|30000|0|0||host|1|f|0"),
        10 => format!("1|p|ann|{here}|30000|1|3||host|1|f|0"),
        11 => format!("1|p|bob|{here}|30000|2|3||host|1|f|0|new|9"),
        12 => format!("1|p|cid|{unresponsive}|30000|1|3||host|1|f|0"),
        13 => "1|p|dan||2000|1|3||host|1|f|0".to_owned(),
        14 => format!("1|p|eve|{here}|30000|1|2||host|1|f|0"), // another total
        15 => format!("1|o|ann|{here}|30000|0|0|one|host|1|f|0|new|9"),
        16 => "1|o|bob||2000|0|0|one|host|1|f|0".to_owned(),
        17 => format!("1|o|cid|{here}|30000|0|0|two|host|1|f|0"),
        18 => format!("1|o|dan|{unresponsive}|30000|0|0|two|host|1|f|0"),
        19 => format!("1|o|eve|{ELSEWHERE}|30000|0|0|two|host|1|f|0"),
        20 => format!("1|r|once|{here}|30000|0|0||host|1|f|0"),
        21 => "1|w|once||30000|0|0||host|1|f|0".to_owned(),
        22 => format!("1|p|once|{here}|30000|2|3||host|1|f|0"),
        23 => "1|o|once||30000|0|0|one|host|1|f|0".to_owned(),
        24 => return waiter(key, "", "pink"), // queues
        25 => "1|x|once||30000|0|0||host|1|f|0".to_owned(),
        26 => format!("1|x|ona|{here}|30000|0|20000||host|1|f|0"),
        27 => "1|x|onb||2000|0|8000||host|1|f|0|new|9".to_owned(),
        28 => format!("1|x|onc|{unresponsive}|30000|0|20000||host|1|f|0"),
        29 => format!("1|x|ond|{ELSEWHERE}|30000|0|8000||host|1|f|0"),
        30 => "1|x|one||30000|0|20000||host|1|f|0".to_owned(), // never queues
        _ => unreachable!("nobody has this number"),
    };
    let queues = !(20..26).contains(&number) && number != 30;
    Claim {
        queues,
        is_once: number >= RUN_ONCE,
        ..claim(key, &text)
    }
}

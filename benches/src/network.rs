//! Network: W1 to W4 again, behind a wire that delays each way by a constant time; every contender goes through the same one. The row of
//! one task is W1.

use std::time::Duration;

use crate::chapter::Chapter;
use crate::lab::Lab;
use crate::{Failure, contention, cycles};

/// A server in the next room, and one in the next building: round trips of 0.5 and 2 ms.
const EACH_WAY: [Duration; 2] = [Duration::from_micros(250), Duration::from_millis(1)];

/// By these wires, or by this one.
pub(crate) async fn chapters(
    lab: &Lab,
    each_way: Option<Duration>,
) -> Result<Vec<Chapter>, Failure> {
    let wires = each_way.map_or(EACH_WAY.to_vec(), |each_way| vec![each_way]);
    let mut chapters = Vec::new();
    for each_way in wires {
        chapters.push(cycles::together(&lab.another_far(each_way)?).await?);
        chapters.push(contention::throughput(&lab.another_far(each_way)?).await?);
        chapters.push(contention::handoff(&lab.another_far(each_way)?).await?);
    }
    Ok(chapters)
}

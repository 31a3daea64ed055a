//! Network: W1 to W4 again, behind a wire that delays each way by a constant time. All contenders
//! go through the same wire. The row with one task is W1.

use std::time::Duration;

use crate::chapter::Chapter;
use crate::lab::Lab;
use crate::{Failure, contention, cycles};

/// Round trips of 0.5 and 2 ms, as to a server in the next room and in the next building.
const EACH_WAY: [Duration; 2] = [Duration::from_micros(250), Duration::from_millis(1)];

/// Measures behind this wire, or else behind each of [`EACH_WAY`].
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

use tokio::runtime::Handle;
use tokio::time::sleep;

use super::{PERIOD, Pulse};

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn it_beats_while_commands_go_out_and_stops_after_the_last() {
    let (pulse, here) = (Pulse::default(), Handle::current());
    for _ in 0..10 {
        pulse.feel(&here);
        assert_eq!(tasks(), 1, "one timer for all");
        sleep(PERIOD / 2).await;
    }
    sleep(PERIOD * 2).await;
    assert_eq!(tasks(), 0, "nobody sends");
    pulse.feel(&here);
    assert_eq!(tasks(), 1, "somebody does again");
}

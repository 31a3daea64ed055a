//! What the answers prove about the server's clock, whatever the network does.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::client::clock_watch::{ClockAnswer, ClockWatch, News};
use crate::rules::tests::at;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// A server whose clock runs at a given rate, and may be set; times in ms of our clock.
struct Server {
    ppm: i64,
    /// When the rate began.
    since: u64,
    /// What the clock showed then, µs.
    shown: i64,
    watch: ClockWatch,
    news: Vec<News>,
}

impl Server {
    fn new(margin: usize) -> Self {
        Self {
            ppm: 0,
            since: 0,
            shown: 1_700_000_000_000_000,
            watch: ClockWatch::new(Margin::percent(margin).unwrap()),
            news: Vec::new(),
        }
    }

    fn shows(&self, now: u64) -> i64 {
        let passed = i64::try_from(now - self.since).unwrap() * 1_000;
        self.shown + passed + passed / 1_000 * self.ppm / 1_000
    }

    fn runs(&mut self, now: u64, ppm: i64) {
        (self.shown, self.since, self.ppm) = (self.shows(now), now, ppm);
    }

    fn is_set(&mut self, now: u64, by_ms: i64) {
        (self.shown, self.since) = (self.shows(now) + by_ms * 1_000, now);
    }

    /// An answer given at `now`; its command and the answer took this long on their way.
    fn answers(&mut self, now: u64, (there, back): (u64, u64)) {
        let time = u64::try_from(self.shows(now)).unwrap();
        let (sent, heard) = (at(now.saturating_sub(there)), at(now + back));
        self.news
            .extend(self.watch.hear(ClockAnswer { sent, heard, time }));
    }

    /// One answer a second, over a quick network.
    fn seconds(&mut self, of: std::ops::Range<u64>) -> Vec<News> {
        for second in of {
            self.answers(second * 1_000, (1, 1));
        }
        std::mem::take(&mut self.news)
    }
}

#[test]
fn a_clock_that_is_slewed_beyond_the_margin_is_told_once() {
    for (ppm, at_least) in [
        (83_333, 80_000),
        (-83_333, -85_000),
        (12_000, 11_000),
        (-12_000, -13_000),
    ] {
        let mut server = Server::new(1);
        assert_eq!(server.seconds(1..60), []);
        server.runs(60_000, ppm);
        let news = server.seconds(60..300);
        let [News::Rate { ppm: told }] = news[..] else {
            panic!("{ppm}: {news:?}")
        };
        assert!(
            (told - at_least).abs() < 10_000 && told.signum() == ppm.signum(),
            "{told}"
        );
        server.runs(300_000, 0);
        assert_eq!(server.seconds(300..400), [], "well again");
        server.runs(400_000, ppm);
        assert!(
            matches!(server.seconds(400..500)[..], [News::Rate { .. }]),
            "again"
        );
    }
}

#[test]
fn a_clock_within_the_margin_is_never_told() {
    for (margin, ppm) in [
        (1, 9_900),
        (1, -9_900),
        (16, 180_000),
        (16, -158_000),
        (10, 83_333),
    ] {
        let mut server = Server::new(margin);
        server.runs(0, ppm);
        assert_eq!(server.seconds(1..1_000), [], "{margin} % {ppm}");
    }
}

#[test]
fn a_clock_that_is_set_is_told_by_at_least_how_much() {
    for (by, told) in [
        (2_000, 1_900..=2_000),
        (-2_000, -2_000..=-1_900),
        (86_400_000, 86_399_900..=86_400_000),
    ] {
        let mut server = Server::new(1);
        assert_eq!(server.seconds(1..60), []);
        server.is_set(60_000, by);
        let news = server.seconds(60..200);
        let [News::Stepped { micros }] = news[..] else {
            panic!("{by}: {news:?}")
        };
        assert!(told.contains(&(micros / 1_000)), "{by}: {micros}");
        server.is_set(200_000, by);
        assert!(
            matches!(server.seconds(200..300)[..], [News::Stepped { .. }]),
            "again"
        );
    }
}

/// The clock of a suspended machine goes on, and so does the server's; a clock that stops meanwhile
/// sees a step.
#[test]
fn a_suspended_machine_whose_clock_goes_on_has_nothing_to_tell() {
    let mut server = Server::new(1);
    server.seconds(1..30);
    assert_eq!(server.seconds(4_000..4_100), []);
    server.is_set(4_100_000, 3_600_000);
    assert!(matches!(
        server.seconds(4_100..4_200)[..],
        [News::Stepped { .. }]
    ));
}

#[test]
fn what_a_server_says_may_be_anything() {
    let margin = Margin::percent(1).unwrap();
    for time in [0, 1, u64::MAX / 2, u64::MAX] {
        let mut watch = ClockWatch::new(margin);
        for (number, time) in (0..).zip([1_000, time, 0, time, u64::MAX, 7]) {
            let (sent, heard) = (at(number * 20_000), at(number * 20_000 + 1));
            watch.hear(ClockAnswer { sent, heard, time });
        }
        let never = Moment::NEVER;
        watch.hear(ClockAnswer {
            sent: never,
            heard: never,
            time,
        });
        watch.hear(ClockAnswer {
            sent: at(0),
            heard: at(0),
            time,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(15), failure_persistence: None, ..ProptestConfig::default() })]

    /// Answers of two connections, with any delays.
    #[test]
    fn no_delay_makes_a_clock_that_keeps_pace_look_otherwise(
        ppm in -9_900_i64..=9_900,
        answers in prop::collection::vec((1_u64..20_000, 0_u64..3_000, 0_u64..30_000), 1..80),
    ) {
        let mut server = Server::new(1);
        server.runs(0, ppm);
        let (mut now, mut heard) = (40_000, Vec::new());
        for (pause, there, back) in answers {
            now += pause;
            heard.push((now + back, now, (there, back)));
        }
        heard.sort_unstable(); // in the order of arrival
        for (_, now, delays) in heard {
            server.answers(now, delays);
        }
        prop_assert!(server.news.is_empty(), "{:?}", server.news);
    }

    /// Found within a minute of an answer every two seconds, none of which took longer than 20 ms.
    #[test]
    fn a_rate_beyond_the_margin_is_found(ppm in 15_000_i64..200_000, is_slow in any::<bool>(), delays in prop::collection::vec((0_u64..10, 0_u64..10), 30)) {
        let mut server = Server::new(1);
        server.runs(0, if is_slow { -ppm } else { ppm });
        for (number, delays) in (1..).zip(delays) {
            server.answers(number * 2_000, delays);
        }
        let told = &server.news[..];
        prop_assert!(matches!(told, [News::Rate { .. }]), "{told:?}");
    }
}

#[test]
fn the_margin_in_ppm_is_that_of_a_lease() {
    for percent in 1..=20 {
        let margin = Margin::percent(percent).unwrap();
        let fastest = 1_000_000 + u64::try_from(margin.fastest_ppm()).unwrap();
        let hour = Duration::from_secs(3_600);
        let ours = margin.at_least(hour).as_micros() * u128::from(fastest) / 1_000_000;
        assert!(
            ours <= hour.as_micros() && ours + 10_000 > hour.as_micros(),
            "{percent} %"
        );
    }
}

//! Parses the command line.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_runtime::Config;
use dlock_tests::patient;

pub(crate) struct Settings {
    pub(crate) mode: String,
    pub(crate) url: String,
    others: BTreeMap<String, String>,
}

impl Settings {
    pub(crate) fn of_arguments() -> Self {
        let mut words = std::env::args().skip(1);
        let mut word = |what: &str| words.next().unwrap_or_else(|| panic!("{what} is missing"));
        let (mode, url) = (word("the mode"), word("the url"));
        let others = words.map(|word| {
            let (name, value) = word.split_once('=').expect("name=value");
            (name.to_owned(), value.to_owned())
        });
        Self {
            mode,
            url,
            others: others.collect(),
        }
    }

    /// The configuration of its pool; with `plain=1`, without scripts; with `per_slot=1`, with a
    /// counter per slot; with `max_ttl_ms=…`, with that.
    pub(crate) fn config(&self) -> Config {
        let is_on = |name: &str| self.others.get(name).is_some_and(|it| it == "1");
        let mut config = patient(&self.url);
        if is_on("plain") {
            config = config.without_scripts();
        }
        if is_on("per_slot") {
            config = config.counter_per_slot();
        }
        if self.others.contains_key("max_ttl_ms") {
            let longest = Duration::from_millis(self.number("max_ttl_ms"));
            config = config.max_ttl(longest).default_ttl(longest);
            // A node that does not answer is not waited for.
            config = config.command_timeout(longest / 4);
        }
        config
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.text(name)
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number"))
    }

    pub(crate) fn text_or<'a>(&'a self, name: &str, other: &'a str) -> &'a str {
        self.others.get(name).map_or(other, String::as_str)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.others.get(name).unwrap_or_else(|| panic!("{name}=…"))
    }
}

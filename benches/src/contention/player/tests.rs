//! A player's arguments survive writing and parsing.

use std::time::Duration;

use super::{Game, Kind};

#[test]
fn its_words_are_read_back() {
    for (_, kind) in Kind::WORDS {
        let game = Game {
            kind,
            first: 8,
            tasks: 4,
            hold: Duration::from_millis(2),
            think: Duration::ZERO,
        };
        let words: Vec<String> = game.to_string().split(' ').map(str::to_owned).collect();
        assert_eq!(Game::parse(&words), Some(game));
        assert_eq!(Game::parse(&words[1..]), None);
    }
}

//! The counter that the lock protects: it refuses whoever shows a fence that is lower than one that
//! it has seen. It stands for a table in a database.

use std::str::FromStr;

use crate::Failure;

#[derive(Debug, Default)]
pub(crate) struct Resource {
    pub(crate) value: u64,
    /// The highest fence that was shown.
    newest: u64,
    /// How many different fences were accepted, each above the one before.
    pub(crate) fences: u64,
    pub(crate) refused: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Value(u64),
    Refused,
}

impl Resource {
    /// Answers a worker's line: `FENCE read` or `FENCE write VALUE`. Compares and writes in one step;
    /// in SQL, `UPDATE … SET value = $2, fence = $1 WHERE fence <= $1`.
    pub(crate) fn answer(&mut self, line: &str) -> Result<Answer, Failure> {
        let words: Vec<&str> = line.split(' ').collect();
        let (fence, value) = match words.as_slice() {
            [fence, "read"] => (fence.parse()?, None),
            [fence, "write", value] => (fence.parse::<u64>()?, Some(value.parse()?)),
            _ => return Err(format!("a worker said {line:?}").into()),
        };
        if fence < self.newest {
            self.refused += 1;
            return Ok(Answer::Refused);
        }
        self.fences += u64::from(fence > self.newest);
        self.newest = fence;
        self.value = value.unwrap_or(self.value);
        Ok(Answer::Value(self.value))
    }
}

impl Answer {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Value(value) => format!("{value}\n"),
            Self::Refused => "refused\n".to_owned(),
        }
    }
}

impl FromStr for Answer {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        match line {
            "refused" => Ok(Self::Refused),
            value => Ok(Self::Value(value.parse()?)),
        }
    }
}

//! Reads the recorded session; its head explains the lines.

/// The whole recording.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Each with the name that stands for it.
    pub(super) entries: Vec<(String, String)>,
    pub(super) scenarios: Vec<Scenario>,
}

/// Steps on an empty server.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) title: String,
    /// The server is a node of a quorum.
    pub(super) is_node: bool,
    /// The scripts of today store something else, so that both builds in turn store neither.
    pub(super) differs: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Default)]
pub(super) struct Step {
    /// Of the recording; from 1.
    pub(super) line: usize,
    pub(super) operation: String,
    /// The commands that the old link sent.
    pub(super) sent: Vec<String>,
    /// The reply to each.
    pub(super) replies: Vec<String>,
    /// What the old link read from them; nothing, if this was done past it.
    pub(super) answer: Option<String>,
    /// What this link reads since, in place of that.
    pub(super) answer_since: Option<String>,
    /// What was pushed, and what is stored then.
    pub(super) after: Vec<String>,
    /// What is stored since, in place of the same key's line.
    pub(super) since: Vec<String>,
}

pub(super) fn read() -> Session {
    let mut session = Session::default();
    for (at, line) in include_str!("of_274d16ac/session.txt").lines().enumerate() {
        if !(line.is_empty() || line.starts_with('#')) {
            let done = session.read_line(at + 1, line);
            done.unwrap_or_else(|| panic!("line {} of the session: {line}", at + 1));
        }
    }
    session
}

impl Session {
    fn read_line(&mut self, number: usize, line: &str) -> Option<()> {
        if let Some(title) = line.strip_prefix("== ") {
            self.scenarios.push(Scenario {
                title: title.to_owned(),
                is_node: title.starts_with("node: "),
                differs: title.contains("differs: "),
                steps: Vec::new(),
            });
            return Some(());
        }
        let Some(scenario) = self.scenarios.last_mut() else {
            let (name, entry) = line.split_once(" = ")?;
            self.entries.push((name.to_owned(), entry.to_owned()));
            return Some(());
        };
        if let Some(operation) = line.strip_prefix("> ") {
            scenario.steps.push(Step {
                line: number,
                operation: operation.to_owned(),
                ..Step::default()
            });
            return Some(());
        }
        let step = scenario.steps.last_mut()?;
        match line.split_at_checked(2)? {
            ("| ", sent) => step.sent.push(sent.to_owned()),
            ("< ", _) => step.replies.push(line.to_owned()),
            ("= ", _) => step.answer = Some(line.to_owned()),
            ("~=", rest) => step.answer_since = Some(format!("={rest}")),
            ("~ ", rest) => step.since.push(format!("  {rest}")),
            ("! " | "  ", _) => step.after.push(line.to_owned()),
            _ => return None,
        }
        Some(())
    }
}

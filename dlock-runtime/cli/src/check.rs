//! `dlock check`: what the server's settings and the user's rights risk.

use dlock_runtime::{Concern, Finding};
use serde_json::json;

use crate::output::{self, Notices};
use crate::status::{self, Failure};
use crate::{server, table};

/// Prints the findings. Harmful ones make the status 1, those that are only what could not be looked
/// at 2.
pub(crate) async fn check(url: Option<&str>, notices: Notices) -> Result<u8, Failure> {
    let pool = server::connect(url).await?;
    let mut findings = pool.check().await?;
    findings.sort_by_key(|finding| !finding.is_harmful());
    let is_harmful = findings.iter().any(Finding::is_harmful);
    let is_missing = |it: &Finding| it.concern() == Concern::Unreachable;
    let complete = !findings.iter().any(is_missing);
    let status = match findings.iter().any(|it| it.is_harmful() && !is_missing(it)) {
        true => status::NO,
        false if complete => 0,
        false => status::PARTIAL,
    };
    let text = if notices.json {
        let findings: Vec<_> = findings.iter().map(in_json).collect();
        format!(
            "{}\n",
            json!({"harmful": is_harmful, "complete": complete, "findings": findings})
        )
    } else if findings.is_empty() {
        "no findings: everything was looked at\n".to_owned()
    } else {
        let rows: Vec<_> = findings.iter().map(row).collect();
        let text = table::render(["WEIGHT", "ABOUT", "RISK", "WHAT TO DO"], &rows);
        if output::has_colours() {
            text.replace("\nharmful", "\n\x1b[31mharmful\x1b[0m")
        } else {
            text
        }
    };
    output::print(&text)?;
    Ok(status)
}

fn row(finding: &Finding) -> [String; 4] {
    [
        weight(finding).to_owned(),
        format!("{:?}", finding.concern()).to_lowercase(),
        finding.risk().to_owned(),
        status::in_own_words(finding.advice().to_owned()),
    ]
}

fn weight(finding: &Finding) -> &'static str {
    if finding.is_harmful() {
        "harmful"
    } else {
        "minor"
    }
}

fn in_json(finding: &Finding) -> serde_json::Value {
    json!({
        "harmful": finding.is_harmful(),
        "concern": format!("{:?}", finding.concern()),
        "risk": finding.risk(),
        "advice": status::in_own_words(finding.advice().to_owned()),
    })
}

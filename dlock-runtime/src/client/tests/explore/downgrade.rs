//! A holder that goes on as a reader, or extends its lease, as in `driver/guard/downgrade.rs` and
//! `prolong.rs`.

use super::process::{Body, Phase, Process, Turn};
use super::seen::Witness;
use super::world::What;
use crate::client::tokens::Extension;
use crate::rules::commands::{Renewal, Renewed};
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

impl Process {
    /// Sends the downgrade; the holder counts as a reader from now on, whatever the answer.
    pub(super) fn downgrade(&mut self, turn: &Turn<'_>, who: usize) {
        let now = turn.now();
        let Phase::Body(body) = &mut self.contenders[who].phase else {
            return;
        };
        let ttl = Ttl::new(now.until(body.deadline)).expect("a body that is held, in whole ticks");
        if !self.client.tokens.extending(body.token, ttl) {
            return;
        }
        (body.reads, body.asked) = (true, Some(now));
        let (token, claim) = (body.token, body.claim.clone());
        self.send(turn, token, What::Downgrade(Renewal { claim, ttl }));
    }

    /// The server has answered.
    pub(super) fn downgraded(
        &mut self,
        turn: &mut Turn<'_>,
        token: Token,
        sent: Moment,
        reads: bool,
    ) {
        let Some(body) = self.asking(|it| it.token == token) else {
            return;
        };
        body.asked = None;
        let remaining = sent.until(body.deadline);
        if reads {
            turn.seen.saw(Witness::Downgraded);
        }
        let Ok(ttl) = Ttl::new(remaining) else {
            return;
        };
        self.lasts(turn, token, (sent, ttl), Renewed::by_holder(reads));
    }

    /// The connection broke or the command took too long, so the holder may be a reader or not.
    /// What counted before still counts.
    pub(super) fn downgrade_unclear(&mut self, token: Token) {
        self.commands.forget(token, |what| {
            matches!(what, What::Downgrade(_) | What::Renew(_))
        });
        if let Some(body) = self.asking(|it| it.token == token) {
            (body.asked, body.extends) = (None, None);
        }
    }

    /// `LockGuard::extend`: requests the whole ttl once more.
    pub(super) fn extend(&mut self, turn: &Turn<'_>, who: usize) {
        let ttl = self.order(turn.run, who).terms.ttl;
        let Phase::Body(body) = &mut self.contenders[who].phase else {
            return;
        };
        if body.asked.is_some() || !self.client.tokens.extending(body.token, ttl) {
            return;
        }
        (body.asked, body.extends) = (Some(turn.now()), Some(ttl));
        let (token, claim) = (body.token, body.claim.clone());
        self.send(turn, token, What::Renew(Renewal { claim, ttl }));
    }

    pub(super) fn extended(
        &mut self,
        turn: &mut Turn<'_>,
        token: Token,
        sent: Moment,
        answer: Renewed,
    ) {
        let Some(body) = self.asking(|it| it.token == token) else {
            return;
        };
        body.asked = None;
        if let Some(ttl) = body.extends.take() {
            self.lasts(turn, token, (sent, ttl), answer);
        }
    }

    /// The holder's own command was answered.
    fn lasts(&mut self, turn: &mut Turn<'_>, token: Token, sent: (Moment, Ttl), answer: Renewed) {
        let now = turn.now();
        match self.client.tokens.extended(token, sent, answer, now) {
            Extension::NotOurs => {
                let news = self.client.tokens.refused(token, now);
                self.announce(turn, news);
            }
            Extension::Until(deadline, _) => {
                if let Some(body) = self.asking_of(token)
                    && !body.lost
                    && now < body.deadline
                {
                    body.deadline = body.deadline.max(deadline);
                }
            }
            Extension::Over | Extension::AtTooFew | Extension::Failed => {}
        }
    }

    fn asking(&mut self, is: impl Fn(&Body) -> bool) -> Option<&mut Body> {
        let bodies = self
            .contenders
            .iter_mut()
            .filter_map(|it| match &mut it.phase {
                Phase::Body(body) => Some(body),
                _ => None,
            });
        bodies.into_iter().find(|it| it.asked.is_some() && is(it))
    }

    fn asking_of(&mut self, token: Token) -> Option<&mut Body> {
        self.contenders
            .iter_mut()
            .find_map(|it| match &mut it.phase {
                Phase::Body(body) if body.token == token => Some(body),
                _ => None,
            })
    }
}

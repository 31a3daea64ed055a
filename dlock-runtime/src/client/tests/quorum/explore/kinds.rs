//! Who may hold the lock beside whom, and the fences of those that must not.
//!
//! `rules::set` decides what a node admits; this file says what a client may count on.

use super::judge::Order;
use super::run::Run;
use super::world::Fence;
use crate::values::kind::Kind;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Exclusive,
    Reads,
    Writes,
    Ann,
    Bob,
}

impl Role {
    pub(super) fn kind(self) -> Kind {
        match self {
            Role::Exclusive => Kind::Exclusive,
            Role::Reads => Kind::Read,
            Role::Writes => Kind::Write,
            Role::Ann => Kind::Owned("ann".into()),
            Role::Bob => Kind::Owned("bob".into()),
        }
    }

    pub(super) fn excludes(self, other: Role) -> bool {
        self != other || matches!(self, Role::Exclusive | Role::Writes)
    }

    pub(super) fn is_owner(self) -> bool {
        matches!(self, Role::Ann | Role::Bob)
    }
}

/// Of each role, the highest fence with which a body has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Highest([Fence; ROLES.len()]);

const ROLES: [Role; 5] = [
    Role::Exclusive,
    Role::Reads,
    Role::Writes,
    Role::Ann,
    Role::Bob,
];

impl Highest {
    pub(super) fn of(role: Role, fence: Fence) -> Self {
        let mut highest = Self::default();
        highest.began(role, fence);
        highest
    }

    pub(super) fn began(&mut self, role: Role, fence: Fence) {
        let highest = &mut self.0[role as usize];
        *highest = fence.max(*highest);
    }

    fn excluded_by(&self, role: Role) -> Fence {
        let all = ROLES.iter().zip(self.0);
        let excluded = all.filter(|(other, _)| role.excludes(**other));
        excluded.map(|(_, fence)| fence).max().unwrap_or_default()
    }

    /// What a body of this role breaks that begins with this fence after these.
    pub(super) fn broken_by(&self, role: Role, fence: Fence) -> Option<Order> {
        if fence <= self.excluded_by(role) {
            Some(Order::AmongExcluded)
        } else if role.is_owner() && fence < self.0[role as usize] {
            Some(Order::OfAnOwner)
        } else {
            None
        }
    }
}

impl Run {
    /// What this client asks for; exclusive locks unless the run says otherwise.
    pub(super) fn role(&self, client: usize) -> Role {
        let role = self.roles.get(client);
        role.copied().unwrap_or(Role::Exclusive)
    }
}

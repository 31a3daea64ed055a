//! A [`PerProcess`] value of the parent, seen from a forked child: no test forks, the parent's id
//! is faked.

use super::{Home, Known, PerProcess};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

#[test]
fn a_child_has_a_value_of_its_own_whatever_became_of_its_parents() {
    let value: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(0));
    assert!(matches!(value.known(), Known::Unset));
    let parent = Home::elsewhere().0;
    value.process.store(parent, Ordering::Release);
    assert!(matches!(value.known(), Known::Inherited));

    let never_unlocked = value.value.lock().unwrap();
    assert!(matches!(value.known(), Known::Inherited));
    assert!(value.inherited().unwrap().try_lock().is_err());
    *value.ours().lock().unwrap() += 7;
    *value.ours().lock().unwrap() += 1;
    assert!(matches!(value.known(), Known::Ours(ours) if *ours.lock().unwrap() == 8));
    assert!(value.inherited().is_none());
    drop(never_unlocked);
}

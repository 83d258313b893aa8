//! Someone who plans one arena of their own and knows no program.

use et_planner::placement::{Instance, Limits, minimise, validate};

fn main() {
    let text = "id,lower,upper,size\na,0,2,64\nb,1,3,32\nc,2,4,64\n";
    let instance = Instance::from_csv(text).expect("three buffers");
    let best = minimise(&instance, &Limits::default());
    validate(&instance, &best.plan).expect("a plan without overlaps");
    assert!(best.is_proved());
    assert_eq!(best.plan.height(), 96);
}

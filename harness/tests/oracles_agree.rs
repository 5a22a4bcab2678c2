//! The oracle is not alone: five products by four hands, discrete logarithms, the commitments of an Ethereum library, and
//! the devices, all of the same points. Where they disagree, the test says who stands alone.

mod peers;
mod support;

use ark_bls12_381::{Fr, G1Affine, G1Projective, G2Projective};
use ark_ec::CurveGroup;
use ark_ff::{AdditiveGroup, BigInteger, Field, PrimeField};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use gpu_core::Device;
use harness::STRATEGIES;
use harness::oracle::{BaseFlavour, KnownBases, ScalarFlavour, random_numbers, test_seed};
use msm_gpu::{Bases, Msm, MsmConfig};
use peers::{PeerGroup, Verdict, verdict};
use support::devices;

/// Sizes beyond which the slow twin is not asked.
const SLOW_MAX: usize = 300;

fn on_device<G: PeerGroup>(device: &Device, points: &[G::Affine], scalars: &[Fr], batches: u32) -> G {
    let bases = Bases::<G>::trusted(device, points).expect("bases");
    Msm::<G, Fr>::new(&bases, &MsmConfig::batches(batches))
        .and_then(|mut msm| msm.run(scalars))
        .expect("a product")
}

/// Asks everybody, and fails with the names of those who stand against the majority.
fn assert_agreed<G: PeerGroup>(what: &str, known: &KnownBases<G>, scalars: &[Fr], devices: &[Device]) {
    let points = known.points();
    let asked =
        G::peers().into_iter().filter(|peer| peer.name != "double and add" || points.len() <= SLOW_MAX);
    let mut results: Vec<_> =
        asked.map(|peer| (peer.name.to_string(), (peer.product)(points, scalars).into_affine())).collect();
    assert!(results.len() >= 4);
    results.push(("discrete logarithms".into(), known.product(scalars).into_affine()));
    for device in devices {
        let batches = points.len().min(3) as u32;
        let found: G = on_device(device, points, scalars, batches);
        results.push((device.info().id.clone(), found.into_affine()));
    }
    let verdict = verdict(&results);
    assert_eq!(verdict, Verdict::Agreed, "{what} of {} points: {verdict}", points.len());
}

fn all_agree<G: PeerGroup>() {
    let seed = test_seed();
    let devices = devices();
    let mut rng = random_numbers(seed, G::KIND.word());
    for scalar_flavour in ScalarFlavour::ALL {
        for base_flavour in BaseFlavour::ALL {
            let known = KnownBases::<G>::generate(base_flavour, 33, &mut rng);
            let scalars = scalar_flavour.generate(33, &mut rng);
            assert_agreed(&format!("{scalar_flavour}, {base_flavour}"), &known, &scalars, &devices);
        }
    }
    for n in [1, 2, 3, 17, 257, 1000] {
        for flavour in [ScalarFlavour::Uniform, ScalarFlavour::WitnessLike] {
            let known = KnownBases::<G>::generate(BaseFlavour::SomeIdentities, n, &mut rng);
            let scalars = flavour.generate(n, &mut rng);
            assert_agreed(&flavour.to_string(), &known, &scalars, &devices);
        }
    }
    // A size at which each peer's own choices are those of large products.
    let known = KnownBases::<G>::generate(BaseFlavour::Random, 1 << 12, &mut rng);
    let scalars = ScalarFlavour::Uniform.generate(1 << 12, &mut rng);
    assert_agreed("uniform", &known, &scalars, &devices);
}

#[test]
fn b121_all_oracles_agree_in_g1() {
    all_agree::<G1Projective>();
}

#[test]
fn b121_all_oracles_agree_in_g2() {
    all_agree::<G2Projective>();
}

/// Of several results that are not all equal, the odd ones are named, if there are fewer of them.
#[test]
fn b121_who_stands_alone_is_named() {
    let rng = &mut random_numbers(test_seed(), "verdict");
    let known = KnownBases::<G1Projective>::generate(BaseFlavour::Random, 20, rng);
    let scalars = ScalarFlavour::Uniform.generate(20, rng);
    let honest: Vec<_> = G1Projective::peers()
        .iter()
        .map(|peer| (peer.name.to_string(), (peer.product)(known.points(), &scalars)))
        .collect();
    assert_eq!(verdict(&honest), Verdict::Agreed);
    assert_eq!(verdict::<G1Projective>(&[]), Verdict::Agreed);
    let wrong = |which: &[usize]| {
        let mut results = honest.clone();
        for (nth, index) in which.iter().enumerate() {
            results[*index].1 += known.points()[nth];
        }
        verdict(&results)
    };
    let name = |index: usize| honest[index].0.clone();
    for index in 0..honest.len() {
        // Also if it is the oracle itself.
        assert_eq!(wrong(&[index]), Verdict::Odd(vec![name(index)]));
    }
    assert_eq!(wrong(&[3, 1]), Verdict::Odd(vec![name(1), name(3)]));
    assert_eq!(wrong(&[0, 1, 2]), Verdict::Split, "two of five are no majority");
    assert_eq!(wrong(&[0]).to_string(), "against the majority: arkworks 0.6");
}

/// The points of Ethereum's ceremony, in the order in which a blob's values meet them.
fn ceremony() -> Vec<G1Affine> {
    let bytes = include_bytes!("../../golden/kzg/g1_lagrange.bin");
    let point = |bytes: &[u8]| G1Affine::deserialize_compressed(bytes).expect("a point of the subgroup");
    let natural: Vec<_> = bytes.chunks(48).map(point).collect();
    let log_n = natural.len().trailing_zeros();
    assert_eq!(natural.len(), 4096);
    (0..natural.len()).map(|index| natural[index.reverse_bits() >> (usize::BITS - log_n)]).collect()
}

/// A product over real points that nobody here has chosen: the commitment that c-kzg computes to a blob is the sum of its
/// values times the points.
#[test]
fn commitments_to_blobs_are_products_over_the_ceremony_s_points() {
    let seed = test_seed();
    let rng = &mut random_numbers(seed, "blobs");
    let (points, n) = (ceremony(), 4096);
    let settings = c_kzg::ethereum_kzg_settings(0);
    let mut blobs: Vec<(String, Vec<Fr>)> = [
        ScalarFlavour::Uniform,
        ScalarFlavour::Zeros,
        ScalarFlavour::OneHot,
        ScalarFlavour::MinusOnes,
        ScalarFlavour::WitnessLike,
    ]
    .map(|flavour| (flavour.to_string(), flavour.generate(n, rng)))
    .into();
    // The first and the last value alone: the order of the points is right at both ends.
    for index in [0, 1, n - 1] {
        let mut blob = vec![Fr::ZERO; n];
        blob[index] = Fr::ONE;
        blobs.push((format!("one at {index}"), blob));
    }
    let mut products: Vec<_> = devices()
        .iter()
        .flat_map(|device| {
            // Bases are checked: this is what a user does with points from outside.
            let bases = Bases::<G1Projective>::new(device, &points).expect("points of the group");
            STRATEGIES.map(|strategy| {
                let config = MsmConfig { strategy, ..MsmConfig::batches(4) };
                let name = format!("{strategy} on {}", device.info().id);
                (name, Msm::<G1Projective, Fr>::new(&bases, &config).expect("a plan"))
            })
        })
        .collect();
    for (what, values) in blobs {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.into_bigint().to_bytes_be()).collect();
        let blob = c_kzg::Blob::from_bytes(&bytes).expect("4096 values");
        let commitment = settings.blob_to_kzg_commitment(&blob).expect("each value is below r").to_bytes();
        let mut results = vec![("c-kzg".to_string(), commitment.as_ref().to_vec())];
        let compressed = |sum: G1Projective| {
            let mut bytes = Vec::new();
            sum.into_affine().serialize_compressed(&mut bytes).expect("a vector takes all bytes");
            bytes
        };
        for peer in G1Projective::peers().iter().filter(|peer| peer.name != "double and add") {
            results.push((peer.name.into(), compressed((peer.product)(&points, &values))));
        }
        for (name, product) in &mut products {
            results.push((name.clone(), compressed(product.run(&values).expect("a product"))));
        }
        let verdict = verdict(&results);
        assert_eq!(verdict, Verdict::Agreed, "{what}: {verdict}");
    }
}

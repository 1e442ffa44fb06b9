# Runs the examples of the documentation; docs/README.md has the rules.
package RagDocs;

use strict;
use warnings;
use utf8;

use Encode qw(decode encode);
use Exporter 'import';
use IO::Socket::INET;
use IPC::Run ();
use List::Util qw(max);
use POSIX qw(mktime);
use PostgreSQL::Test::Utils ();
use RagBucket ();
use RagCluster;
use RagGit ();
use RagLlm ();

our @EXPORT = qw(read_page page_text replace_lines example_names run_page shown output_fits);

# -- pages
# ------------------------------------------------------------------------------------------------

# A page: its lines; its examples in their order, {line, sql, expected, from, to} (the lines of the
# expected output between its fences); its generated parts, {line, what, from, to}.
sub read_page
{
	my ($text) = @_;
	my @lines = split /\n/, $text;
	my $page = { lines => \@lines, examples => [], generated => [] };
	my $i = 0;
	while ($i < @lines)
	{
		if ($lines[$i] =~ /^```(.*)$/)
		{
			my ($info, $from) = ($1, $i + 1);
			my $end = _find(\@lines, $from, qr/^```\s*$/);
			_add_block($page, $info, $from, $end);
			$i = $end;
		}
		elsif ($lines[$i] =~ /^<!-- run$/)
		{
			my $end = _find(\@lines, $i + 1, qr/^-->$/);
			push @{ $page->{examples} }, _example(\@lines, $i + 1, $end);
			$i = $end;
		}
		elsif ($lines[$i] =~ /^<!-- generated: (.*?) -->$/)
		{
			my $end = _find(\@lines, $i + 1, qr/^<!-- end -->$/);
			push @{ $page->{generated} },
			  { line => $i + 1, what => $1, from => $i + 1, to => $end };
			$i = $end;
		}
		$i++;
	}
	return $page;
}

sub _find
{
	my ($lines, $i, $pattern) = @_;
	my $begin = $i;
	$i++ while $i < @$lines && $lines->[$i] !~ $pattern;
	$i < @$lines or die "line $begin begins what nothing ends\n";
	return $i;
}

sub _example
{
	my ($lines, $from, $end) = @_;
	return { line => $from + 1, sql => join("\n", @$lines[ $from .. $end - 1 ]) };
}

sub _add_block
{
	my ($page, $info, $from, $end) = @_;
	if ($info eq 'sql')
	{
		push @{ $page->{examples} }, { %{ _example($page->{lines}, $from, $end) }, end => $end };
	}
	elsif ($info eq 'text' && @{ $page->{examples} })
	{
		my $example = $page->{examples}[-1];
		my $above = $from - 2;
		$above-- while $above > 0 && $page->{lines}[$above] =~ /^\s*$/;
		return unless defined $example->{end} && $example->{end} == $above;
		@$example{qw(from to expected)} =
		  ($from, $end, join("\n", @{ $page->{lines} }[ $from .. $end - 1 ]));
	}
	return;
}

# Replaces lines of a page: [from, to, text], as read_page has given them.
sub replace_lines
{
	my ($page, @edits) = @_;
	for my $edit (sort { $b->[0] <=> $a->[0] } @edits)
	{
		my ($from, $to, $text) = @$edit;
		splice @{ $page->{lines} }, $from, $to - $from, split /\n/, $text;
	}
	return;
}

sub page_text { return join("\n", @{ $_[0]{lines} }) . "\n" }

# -- what examples may name
# ------------------------------------------------------------------------------------------------

# Pairs of a name in the documentation and of what it stands for here.
sub example_names
{
	my ($data) = @_;
	my $folder = temp_folder() . '/docs';
	system('cp', '-R', "$data/handbook", $folder) == 0 or die "cannot copy $data/handbook";
	my $work = RagGit::git_repository();
	system("cp -R $folder/. " . $work->path) == 0 or die 'cannot copy the handbook';
	$work->commit;
	my $repositories = temp_folder();
	$work->git('clone', '--quiet', '--bare', $work->path, "$repositories/handbook.git");
	RagLlm::says('llm', 'A signing key is replaced every 90 days [1].');
	my $git = RagGit::git_server(bless { path => $repositories }, 'RagGit') =~ s/\.git$//r;
	return (
		[ '/srv/docs', $folder ],
		[ '/srv/bundles', temp_folder() ],
		[ '/srv/handbook.git', "$repositories/handbook.git" ],
		[ 'https://git.example.org/', $git ],
		[ 'https://www.example.org/', _serve("$data/site") ],
		[ 'https://storage.example.org', RagBucket::bucket_server("$data/handbook") ],
		map { [ "https://$_.example.org", RagLlm::origin($_) ] } 'llm', 'rerank');
}

# Serves the files below a folder on loopback until the test ends; gives its URL.
sub _serve
{
	my ($folder) = @_;
	my $listener = IO::Socket::INET->new(Listen => 16, LocalAddr => '127.0.0.1', Proto => 'tcp')
	  or die "no socket: $!";
	my $parent = $$;
	my $pid = fork // die "no process: $!";
	if ($pid == 0)
	{
		local $SIG{PIPE} = 'IGNORE';
		local $SIG{ALRM} = sub { getppid() == $parent or POSIX::_exit(0); alarm 1 };
		alarm 1;
		while (1)
		{
			my $connection = $listener->accept or next;
			_answer($connection, $folder);
			close $connection;
		}
	}
	push @RagDocs::servers, $pid;
	return 'http://127.0.0.1:' . $listener->sockport . '/';
}

END { local $?; kill 'TERM', @RagDocs::servers if @RagDocs::servers }

my %types = (html => 'text/html; charset=utf-8', md => 'text/markdown', txt => 'text/plain');

sub _answer
{
	my ($connection, $folder) = @_;
	my ($path) = (readline($connection) // '') =~ m{^GET (/[\w./-]*) } or return;
	while (defined(my $line = readline $connection)) { last if $line =~ /^\r?\n/ }
	$path .= 'index.html' if $path =~ m{/$};
	my $found = $path !~ /\.\./ && -f "$folder$path";
	my $body = $found ? PostgreSQL::Test::Utils::slurp_file("$folder$path") : 'not found';
	my $status = $found ? '200 OK' : '404 Not Found';
	my $type = $types{ ($path =~ /\.(\w+)$/)[0] // '' } // 'text/plain';
	print $connection "HTTP/1.1 $status\r\nContent-Type: $type\r\nContent-Length: ", length $body,
	  "\r\nConnection: close\r\n\r\n$body";
	return;
}

# -- examples
# ------------------------------------------------------------------------------------------------

# Runs the examples of a page in one session; gives the output of each.
sub run_page
{
	my ($node, $database, $page, @names) = @_;
	my $script = "\\pset footer off\n";
	my $count = 0;
	for my $example (@{ $page->{examples} })
	{
		my $sql = $example->{sql};
		# /srv/docs is no part of /srv/docs-2
		$sql =~ s/\Q$_->[0]\E(?:(?<=\W)|(?![\w-]))/$_->[1]/g for @names;
		$script .= sprintf "\\echo == example %d\n%s\n", $count++, $sql;
	}
	$script .= "\\echo == end\n";
	my $connection = $node->connstr($database) . ' user=postgres';
	my @command =
	  ($node->installed_command('psql'), '--no-psqlrc', '--quiet', '--dbname', $connection);
	my $file = PostgreSQL::Test::Utils::tempdir() . '/page.sql';
	write_file($file, encode('UTF-8', $script));
	local %ENV = (%ENV, PGTZ => 'UTC', PGCLIENTENCODING => 'UTF8');
	my $out = '';
	IPC::Run::run(\@command, '<', $file, '>', \$out, '2>&1');
	# what precedes the first mark has no key
	my (undef, %output) = split /^== (?:example )?(\d+|end)\n/m, decode('UTF-8', $out), -1;
	my $lost = "FATAL:  the session ended before this example, or one before it never ends\n";
	return map { _rename($output{$_} // $lost, @names) } 0 .. $count - 1;
}

# Gives what the test made its name in the documentation, and columns their width.
sub _rename
{
	my ($output, @names) = @_;
	my @lines = split /\n/, $output;
	my @renamed;
	while (@lines)
	{
		my $table = @lines > 1 && $lines[1] =~ /^-[-+]*$/;
		my @part = shift @lines;
		push @part, shift @lines while $table && @lines && $lines[0] ne '';
		push @renamed, $table ? _narrow(\@part, @names) : map { _name($_, @names) } @part;
	}
	s/\s+$// for @renamed;
	s/^(-\[ RECORD \d+ \][-+]{50})[-+]+$/$1/ for @renamed;
	return join "\n", @renamed;
}

sub _name
{
	my ($text, @names) = @_;
	$text =~ s/\Q$_->[1]\E/$_->[0]/g for @names;
	return $text;
}

# A table of psql's, cut at the signs "+" of its second line, its cells renamed and aligned again. A
# cell begins with a blank and ends with one, or with the sign that it goes on in the next line.
sub _narrow
{
	my ($lines, @names) = @_;
	return @$lines unless grep { $_ ne _name($_, @names) } @$lines;
	my @widths = map { length } split /\+/, $lines->[1];
	my (@rows, @width, %is_text);
	for my $i (0, 2 .. $#$lines)
	{
		my ($at, @cells) = (0);
		for my $column (0 .. $#widths)
		{
			my $cell = $at < length $lines->[$i] ? substr $lines->[$i], $at, $widths[$column] : '';
			$at += $widths[$column] + 1;
			my ($text, $end) = sprintf("%-$widths[$column]s", $cell) =~ /^ (.*)(.)$/;
			$text = _name($text, @names) =~ s/\s+$//r;
			$text =~ s/^\s+// if $i == 0 || $text =~ /^\s*-?[\d.]+$/;
			$is_text{$column} = 1 if $i > 0 && $text !~ /^-?[\d.]*$/;
			push @cells, [ $text, $end ];
			$width[$column] = max($width[$column] // 0, length $text);
		}
		push @rows, \@cells;
	}
	my @text;
	for my $row (0 .. $#rows)
	{
		my @cells = map {
			my ($text, $end) = @{ $rows[$row][$_] };
			my $room = $width[$_] - length $text;
			my $before = $row == 0 ? int($room / 2) : $is_text{$_} ? 0 : $room;
			' ' . ' ' x $before . $text . ' ' x ($room - $before) . $end;
		} 0 .. $#width;
		push @text, join('|', @cells) =~ s/\s+$//r;
		push @text, join '+', map { '-' x ($_ + 2) } @width if $row == 0;
	}
	return @text;
}

# The output without messages that the page does not show, and without blanks at its ends.
sub shown
{
	my ($output, $expected) = @_;
	unless ($expected =~ /^(?:NOTICE|WARNING)/m)
	{
		my $is_hidden = 0;
		$output = join "\n", grep {
			$is_hidden = 1 if /^(?:NOTICE|WARNING|INFO):/;
			$is_hidden = 0 if $is_hidden && !/^(?:NOTICE|WARNING|INFO|DETAIL|HINT|CONTEXT):/;
			!$is_hidden
		} split /\n/, $output;
	}
	# nor what a function returns that returns nothing
	$output =~ s/^ *rag_\w+\n-+(?:\n\n+|\n*\z)//mg;
	return $output =~ s/^\s*\n//r =~ s/\s+$//r;
}

# Whether the output of an example is what the page shows.
sub output_fits
{
	my ($output, $expected) = @_;
	my @output = _lines(shown($output, $expected));
	my @expected = _lines($expected);
	return _lines_fit(\@output, 0, \@expected, 0);
}

sub _lines
{
	my ($text) = @_;
	return grep { $_ ne '' } map { _plain($_) } split /\n/, $text;
}

# A line without what is different each time.
sub _plain
{
	my ($line) = @_;
	$line = '----' if $line =~ /^-[-+]*$/;
	$line =~ s/^(-\[ RECORD \d+ \])[-+]*$/$1/;
	$line =~ s/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/<uuid>/g;
	$line =~ s/\b[0-9a-f]{16,}\b/<hash>/g;
	$line =~ s/(?<![-\d] )(?<![\dT])\b\d\d:\d\d:\d\d(?:\.\d+)?\b(?!\+)/<interval>/g;
	$line =~ s/\s+/ /g;
	return $line =~ s/^ | $//gr;
}

sub _lines_fit
{
	my ($output, $i, $expected, $j) = @_;
	while ($j < @$expected)
	{
		if ($expected->[$j] eq '...')
		{
			for my $next ($i .. @$output)
			{
				return 1 if _lines_fit($output, $next, $expected, $j + 1);
			}
			return 0;
		}
		return 0 unless $i < @$output && _line_fits($output->[ $i++ ], $expected->[ $j++ ]);
	}
	return $i == @$output;
}

my $time = qr/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d(?::?\d\d)?|Z)?/;
my $number = qr/-?\d+\.\d+/;

sub _line_fits
{
	my ($output, $expected) = @_;
	return 1 if $output eq $expected;
	my (@values, $pattern);
	for my $part (split /(\.\.\.|$time|$number)/, $expected)
	{
		if ($part eq '...') { $pattern .= '.*' }
		elsif ($part =~ /^$time$/) { $pattern .= "($time)"; push @values, $part }
		elsif ($part =~ /^$number$/) { $pattern .= "($number)"; push @values, $part }
		else { $pattern .= quotemeta $part }
	}
	my @found = $output =~ /^$pattern$/ or return 0;
	return !grep { !_value_fits($found[$_], $values[$_]) } 0 .. $#values;
}

# Times of today and of days near it are different each time; others are not.
sub _value_fits
{
	my ($found, $expected) = @_;
	return 1 if $found eq $expected;
	if ($expected =~ /^$time$/)
	{
		my ($year, $month, $day) = $found =~ /^(\d+)-(\d+)-(\d+)/;
		return abs(mktime(0, 0, 12, $day, $month - 1, $year - 1900) - time) < 40 * 24 * 3600;
	}
	return abs($found - $expected) <= max(0.02, 0.02 * abs $expected);
}

1;

-- What is the profit of stores in the five best states, by state and county, with its rank?
WITH best AS (
  SELECT s_state AS state, rank() OVER (ORDER BY sum(ss_net_profit) DESC) AS position
  FROM store_sales
  JOIN store ON s_store_sk = ss_store_sk
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year = 2000
  GROUP BY s_state
)
SELECT
  s_state,
  s_county,
  sum(ss_net_profit) AS profit,
  grouping(s_state) + grouping(s_county) AS level,
  rank() OVER (
    PARTITION BY
      grouping(s_state) + grouping(s_county), CASE WHEN grouping(s_county) = 0 THEN s_state END
    ORDER BY sum(ss_net_profit) DESC
  ) AS place
FROM store_sales
JOIN store ON s_store_sk = ss_store_sk
JOIN date_dim ON d_date_sk = ss_sold_date_sk
WHERE d_year = 2000 AND s_state IN (SELECT state FROM best WHERE position <= 5)
GROUP BY ROLLUP (s_state, s_county)
ORDER BY level DESC, s_state, place, s_county
LIMIT 100
